// The last step: its timeline, the bar that is picked, and what the kinds of grids take.

import {send} from "./api.js";
import {byId, counted, duration, make, number} from "./dom.js";
import {Timeline} from "./timeline.js";
import {listen, listenToButtons} from "./timeline_input.js";
import {kindOf, readTrace} from "./trace.js";

const timeline = new Timeline(byId("timeline"));
let text = null;  // of the trace's file

// Returns a time of the trace with its unit. An emulator counts, and has no times.
const timeText = (time) => (timeline.trace.timed ? duration(time / 1e6) : counted(time, "reading"));

function showNone(...message) {
  byId("step-none").hidden = false;
  byId("step-shown").hidden = true;
  byId("step-none").replaceChildren(...message);
}

// Returns what a bar is, as lines.
function linesOf(place) {
  const bar = timeline.barOf(place);
  const {worker} = timeline.trace.rows[place.row];
  const grid = timeline.trace.grids[bar.grid];
  const last = bar.first + bar.tasks - 1;
  const tasks = bar.tasks > 1 ? `tasks ${bar.first} to ${last}` : `task ${bar.first}`;
  const who = `${bar.loader ? "loader of worker" : "worker"} ${worker}`;
  const lines = [`${bar.waits ? "wait for inputs of " : ""}${grid}`, `${tasks}, ${who}`];
  lines.push(`${timeText(bar.end - bar.begin)}, from ${timeText(bar.begin)}`);
  if (bar.ring) lines.push(`${timeText(bar.ring)} of it waiting for the ring`);
  return lines;
}

function showPicked(place) {
  byId("picked").textContent = linesOf(place).join(" · ");
}

function showTip(place, event) {
  const tip = byId("tip");
  tip.hidden = place === null;
  if (!place) return;
  const [name, ...rest] = linesOf(place);
  tip.replaceChildren(
      make("strong", {textContent: name}), ...rest.map((line) => make("span", {textContent: line})));
  const room = timeline.width - tip.offsetWidth - 4;
  tip.style.left = `${Math.max(0, Math.min(event.offsetX + 14, room))}px`;
  tip.style.top = `${event.offsetY + 18}px`;
}

function highlight(kind) {
  timeline.kind = timeline.kind === kind ? null : kind;
  timeline.draw();
  for (const button of byId("legend").querySelectorAll("button"))
    button.setAttribute("aria-pressed", String(button.value === timeline.kind));
}

function legendEntry(kind, total) {
  const swatch = make("span", {className: "swatch"});
  swatch.style.background = timeline.colourOf(kind);
  const share = make("span", {className: "share", textContent: timeText(Math.round(kind.time))});
  const tasks = make("span", {className: "muted", textContent: counted(kind.tasks, "task")});
  const bar = make("span", {className: "amount"});
  bar.style.width = `${(100 * kind.time) / total}%`;
  const button = make(
      "button", {type: "button", value: kind.name}, swatch,
      make("span", {className: "kind", textContent: kind.name}), tasks, share, bar);
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => highlight(kind.name));
  return button;
}

function showLegend(trace) {
  const most = Math.max(...trace.kinds.map((kind) => kind.time), 1);
  byId("legend").replaceChildren(
      ...trace.kinds.filter((kind) => kind.tasks).map((kind) => legendEntry(kind, most)));
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
  timeline.kind = null;
  timeline.show(trace);
  const parts = [`${trace.timed ? "measured on" : "counted on"} ${trace.device}`, timeText(trace.end)];
  parts.push(requestsText(trace.requests), `a worker waits ${timeText(Math.round(trace.waited))} for events`);
  if (trace.lost) parts.push(`${counted(trace.lost, "stamp")} lost`);
  byId("step-about").textContent = parts.join(" · ");
  byId("picked").textContent = "";
  showLegend(trace);
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

listen(timeline, {onPick: showPicked, onHover: showTip});
listenToButtons(timeline, byId("zoom-in"), byId("zoom-out"), byId("zoom-all"));
byId("read-step").addEventListener("click", readStep);
byId("save-step").addEventListener("click", save);
