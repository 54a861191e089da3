// Shows the report's data.

import {byId} from "./dom.js";
import {showGraph} from "./graph.js";
import {showHead} from "./head.js";
import {showStep} from "./step.js";
import {showGrids, showMemory, showOperators, showProof} from "./tables.js";

const data = JSON.parse(byId("data").textContent);
showHead(data);
const colourOf = showStep(data);
showGraph(data, colourOf);
showGrids(data, colourOf);
showOperators(data, colourOf);
showMemory(data);
showProof(data);
document.documentElement.dataset.ready = "true";
