// The last step: its timeline, the bar that is picked, and what the kinds of grids take.

import {send} from "./api.js";
import {byId, counted, make, number} from "./dom.js";
import {TimelinePanel} from "./timeline_panel.js";
import {readTrace} from "./trace.js";

const panel = new TimelinePanel({
  canvas: byId("timeline"),
  tip: byId("tip"),
  picked: byId("picked"),
  legend: byId("legend"),
  zoomIn: byId("zoom-in"),
  zoomOut: byId("zoom-out"),
  zoomAll: byId("zoom-all")
});
let text = null;  // of the trace's file

function showNone(...message) {
  byId("step-none").hidden = false;
  byId("step-shown").hidden = true;
  byId("step-none").replaceChildren(...message);
}

function requestsText(requests) {
  const rows = requests.reduce((total, request) => total + request.rows, 0);
  const longest = Math.max(...requests.map((request) => request.kv_len));
  return `${counted(requests.length, "request")} with ${counted(rows, "token")}, up to position ${
      number(longest)}`;
}

function show(trace) {
  byId("step-none").hidden = true;
  byId("step-shown").hidden = false;
  panel.show(trace);
  const parts = [`${trace.timed ? "measured on" : "counted on"} ${trace.device}`, panel.timeText(trace.end)];
  parts.push(
      requestsText(trace.requests), `a worker waits ${panel.timeText(Math.round(trace.waited))} for events`);
  if (trace.lost) parts.push(`${counted(trace.lost, "stamp")} lost`);
  byId("step-about").textContent = parts.join(" · ");
}

// Gets the last step's trace from the server and shows it.
export async function readStep() {
  if (byId("step-tools").hidden) return;
  try {
    const response = await send("/debug/step");
    text = await response.text();
    const trace = readTrace(JSON.parse(text));
    if (trace.rows.length)
      show(trace);
    else
      showNone("No step has run since the server started.");
  } catch (error) {
    showNone(error.message);
  }
}

// Saves the trace as a file, which `mkc trace` sets beside the simulated step.
function save() {
  if (!text) return;
  const url = URL.createObjectURL(new Blob([text], {type: "application/json"}));
  make("a", {href: url, download: "step.json"}).click();
  URL.revokeObjectURL(url);
}

// Shows the last step of a traced kernel, or how to get one.
export function openStep(model) {
  byId("step-tools").hidden = !model.traced;
  if (model.traced)
    readStep();
  else
    showNone(
        "This kernel keeps no times. ", make("code", {textContent: "mkc serve --trace-steps"}),
        " compiles one that does. Its stamps cost some time.");
}

byId("read-step").addEventListener("click", readStep);
byId("save-step").addEventListener("click", save);
