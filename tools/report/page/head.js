// The head of the report, and where the time of the step goes.

import {byId, make, number} from "./dom.js";
import {bytesText, makeStack, makeTable, percent, usText} from "./format.js";

const CAUSES = ["#c2413b", "#d9772b", "#a8549a", "#c9a227", "#7d8a93", "#5b7fb5", "#9a6b4f", "#6d6aa8"];
const PATH = {
  signal: "#c2413b",
  start: "#d9772b",
  starved: "#c9a227",
  finish: "#a8549a"
};
const MOVED = "var(--accent)";
const PADDING = "#8fb8ad";

function figure(name, value, more = "") {
  return [
    make("dt", {textContent: name}),
    make("dd", {}, value, make("small", {className: "muted", textContent: more})),
  ];
}

const limitText = ({symbol, lo, hi}) => `${symbol} ${lo === hi ? hi : `${number(lo)}–${number(hi)}`}`;

// Returns the last folder of a path.
const lastPart = (path) => path.split("/").filter(Boolean).at(-1) ?? path;

function showTitle({step, target, version, gpu, trace, limits, step_text}) {
  const name = lastPart(step.model);
  document.title = `${name} on ${step.machine}: mkc report`;
  byId("model").textContent = name;
  byId("model").title = step.model;
  const parts = [`${step.machine} (${target})`, `${step.workers} workers`, step_text];
  parts.push(`limits ${limits.map(limitText).join(", ")}`, version);
  if (gpu && !trace) parts.push("simulated: not run on a GPU");
  if (step.machine_from) parts.push(step.machine_from);
  byId("about").textContent = parts.join(" · ");
}

// Returns the measured time of the step in µs, or null where it was only simulated or counted.
export function measuredUs({trace}) {
  return trace?.timed ? trace.times.find(({purpose}) => purpose === "all").found : null;
}

function showFigures(data) {
  const {step} = data;
  const us = measuredUs(data);
  const range = step.us_range.map(usText).join(" to ");
  const fractions = step.fraction_range.map(percent).join(" to ");
  const figures = [];
  if (us !== null) figures.push(figure("measured step", usText(us), data.trace.device));
  figures.push(figure("predicted step", usText(step.us), range));
  figures.push(figure("floor", usText(step.floor_us), "bytes at the ceiling"));
  if (us !== null) figures.push(figure("floor by measured", percent(step.floor_us / us)));
  figures.push(figure("floor by predicted", percent(step.fraction), fractions));
  figures.push(figure("bytes moved", bytesText(step.bytes), `${number(step.bytes)} B`));
  byId("figures").replaceChildren(...figures.map((pair) => make("div", {}, ...pair)));
}

// The floor, padding and idle causes make up the step.
function streamParts({step, causes}) {
  const idle =
      causes.map(({cause, text, us}, i) => ({name: cause, help: text, amount: us, colour: CAUSES[i]}));
  const rest = idle.reduce((total, part) => total - part.amount, step.us - step.floor_us);
  return [
    {name: "floor", help: "bytes that must move, at the ceiling", amount: step.floor_us, colour: MOVED},
    {name: "padding", help: "of packed tiles, moved beside the bytes", amount: rest, colour: PADDING},
    ...idle.sort((a, b) => b.amount - a.amount),
  ];
}

const PATH_HELP = {
  signal: "notifications and polls",
  start: "first operands, norms",
  starved: "products that wait for tiles",
  finish: "reductions, stores, barriers"
};

function pathParts({step}) {
  const parts =
      Object.entries(step.critical_path_us).map(([name, amount], i) => ({
                                                  name,
                                                  amount,
                                                  help: PATH_HELP[name] ?? "work of such tasks",
                                                  colour: PATH[name] ?? `oklch(0.66 0.09 ${150 + 25 * i})`
                                                }));
  return parts.sort((a, b) => b.amount - a.amount);
}

function measuredTable({trace}) {
  const unit = trace.timed ? "measured" : "stamps";
  const show = (us) => (trace.timed ? usText(us) : number(us));
  const columns = [
    {name: "purpose", value: (t) => t.purpose},
    {name: unit, value: (t) => t.found, show: (t) => show(t.found), numeric: true},
    {name: "simulated", value: (t) => t.simulated_us, show: (t) => usText(t.simulated_us), numeric: true},
  ];
  const title = `Time of a worker by purpose, ${trace.timed ? "measured" : "counted"} on ${trace.device}`;
  const lost =
      trace.lost ? [make("p", {className: "notice", textContent: `${trace.lost} stamps were lost`})] : [];
  return [make("h3", {textContent: title}), makeTable(title, columns, trace.times), ...lost];
}

export function showHead(data) {
  showTitle(data);
  showFigures(data);
  byId("fault").hidden = data.memory.fault === "";
  byId("fault").textContent = `Such a step cannot run: ${data.memory.fault}`;
  byId("shares").replaceChildren(
      makeStack("The predicted step, by what the stream of bytes does", streamParts(data), usText),
      makeStack("The critical path of the predicted step", pathParts(data), usText));
  if (data.trace) byId("measured").replaceChildren(...measuredTable(data));
}
