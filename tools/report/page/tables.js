// The grids, the operators, memory and the proof.

import {byId, counted, make, number} from "./dom.js";
import {bytesText, makeStack, makeTable, percent, usText} from "./format.js";
import {measuredUs} from "./head.js";
import {operatorsOf} from "./step_data.js";
import {kindOf} from "./trace.js";

const WEIGHTS = "#4e79a7", CACHE = "#f28e2b", WORKSPACE = "#59a14f", RING = "#4e79a7", BESIDE = "#b07aa1";
const FORMATS = ["#4e79a7", "#59a14f", "#f28e2b", "#b07aa1", "#76b7b2", "#e15759", "#edc948"];

function eventText(word, {event, cells, expects, reason}) {
  return make(
      "li", {}, `${word} `, make("code", {textContent: event}),
      `: ${counted(cells, "cell")} of ${expects}${reason ? `; ${reason}` : ""}`);
}

// Returns the reason of a placement, which opens to the events.
function reasonOf(row) {
  const items = [
    ...row.in.map((e) => eventText("waits for", e)),
    ...row.out.map((e) => eventText("notifies", {...e, reason: ""}))
  ];
  if (row["not fused"]) items.push(make("li", {textContent: `not fused: ${row["not fused"]}`}));
  return make("details", {}, make("summary", {textContent: row.reason}), make("ul", {}, ...items));
}

function swatchOf(colour) {
  const swatch = make("span", {className: "swatch"});
  swatch.style.background = colour;
  return swatch;
}

export function showGrids(data, colourOf) {
  const measured = measuredUs(data) !== null;
  const simulated = data.timelines.length - 1;
  const columns = [
    {
      name: "grid",
      value: (r) => r.grid,
      show: (r) => make(
          "span", {className: "named"}, swatchOf(colourOf(kindOf(r.grid))),
          make("code", {textContent: r.grid}))
    },
    {name: "alike", value: (r) => r.alike, numeric: true, help: "grids of this kind"},
    {name: "body", value: (r) => r.body},
    {name: "placement", value: (r) => r.placement},
    {name: "tasks", value: (r) => r.tasks, show: (r) => number(r.tasks), numeric: true},
    {name: "bytes", value: (r) => r.bytes, show: (r) => bytesText(r.bytes), numeric: true},
    {
      name: "a worker",
      value: (r) => r.busy[simulated],
      show: (r) => usText(r.busy[simulated]),
      numeric: true,
      help: "simulated time of a worker, as the mean of all"
    },
    ...(measured ? [{
      name: "measured",
      value: (r) => r.busy[0],
      show: (r) => usText(r.busy[0]),
      numeric: true,
      help: "measured time of a worker, as the mean of all"
    }] :
                   []),
    {
      name: "critical path",
      value: (r) => r.path_us,
      show: (r) => usText(r.path_us),
      numeric: true,
      help: "simulated time of its tasks on the critical path"
    },
    {name: "reason", value: (r) => r.reason, show: reasonOf},
  ];
  byId("grid-table").replaceChildren(makeTable("Grids by kind", columns, data.kinds));
}

// Makes a chart of one bar for each operator, the longest first.
function chart(title, operators, valueOf, textOf, colourOf) {
  const rows = operators.map((o) => ({name: o.name, value: valueOf(o)}))
                   .filter(({value}) => value > 0)
                   .sort((a, b) => b.value - a.value);
  const all = rows.reduce((sum, {value}) => sum + value, 0);
  const list = rows.map(({name, value}) => {
    const bar = make("span", {className: "bar"});
    bar.style.width = `${(100 * value) / rows[0].value}%`;
    bar.style.background = colourOf(name);
    return make(
        "li", {}, make("code", {textContent: name}), make("span", {className: "track"}, bar),
        make("span", {className: "amount-text", textContent: textOf(value)}),
        make("span", {className: "share-text", textContent: percent(value / all)}));
  });
  return make("div", {}, make("h3", {textContent: title}), make("ul", {className: "bars"}, ...list));
}

export function showOperators(data, colourOf) {
  const operators = operatorsOf(data.grids);
  const simulated = data.timelines.length - 1;
  const charts = [
    chart("Bytes that must move", operators, (o) => o.bytes, bytesText, colourOf),
    chart("Simulated time of a worker, mean of all", operators, (o) => o.busy[simulated], usText, colourOf),
    chart("Simulated time on the critical path", operators, (o) => o.path, usText, colourOf),
  ];
  if (measuredUs(data) !== null)
    charts.splice(
        1, 0, chart("Measured time of a worker, mean of all", operators, (o) => o.busy[0], usText, colourOf));
  byId("operator-bars").replaceChildren(...charts);
}

function deviceParts(m) {
  const cache = `${bytesText(m.position_bytes)} a position; ${counted(m.requests, "request")} of ${
      counted(m.positions, "position")}, in pages of ${m.page_size}`;
  return [
    {name: "weights", amount: m.weight_bytes, colour: WEIGHTS, help: "packed, and tables"},
    {name: "keys and values", amount: m.cache_bytes, colour: CACHE, help: cache},
    {name: "workspace", amount: m.workspace_bytes, colour: WORKSPACE, help: "activations and outputs"},
  ];
}

function sharedParts(m) {
  const ring = m.ring_stages * m.stage_bytes;
  return [
    {
      name: "ring",
      amount: ring,
      colour: RING,
      help: `${m.ring_stages} stages of ${bytesText(m.stage_bytes)}`
    },
    {name: "beside", amount: m.shared_bytes - ring, colour: BESIDE, help: "barriers, lists, scratch"},
  ];
}

function formatParts(weights) {
  const formats = new Map();
  for (const {format, bytes} of weights) formats.set(format, (formats.get(format) ?? 0) + bytes);
  return [...formats].map(([name, amount], i) => ({name, amount, colour: FORMATS[i % FORMATS.length]}));
}

export function showMemory({memory, step}) {
  const parts = deviceParts(memory);
  const all = parts.reduce((sum, {amount}) => sum + amount, 0);
  const room = memory.device_bytes;
  const title =
      `${bytesText(all)} at the full limits${room ? `, of ${bytesText(room)} of ${step.machine}` : ""}`;
  const shared = `${bytesText(memory.shared_bytes)} of a worker's own memory`;
  const sharedRoom = memory.device_shared_bytes;
  byId("memory-bars")
      .replaceChildren(
          makeStack(title, parts, bytesText, Math.max(all, room)),
          makeStack(
              sharedRoom ? `${shared}, of ${bytesText(sharedRoom)}` : shared, sharedParts(memory), bytesText,
              Math.max(memory.shared_bytes, sharedRoom)),
          makeStack("Weights by format", formatParts(memory.weights), bytesText));
  const columns = [
    {name: "weight", value: (w) => w.weight, show: (w) => make("code", {textContent: w.weight})},
    {name: "alike", value: (w) => w.alike, numeric: true},
    {name: "format", value: (w) => w.format},
    {name: "shape", value: (w) => w.shape, show: (w) => make("code", {textContent: w.shape})},
    {name: "bytes of all", value: (w) => w.bytes, show: (w) => bytesText(w.bytes), numeric: true},
  ];
  byId("weight-table").replaceChildren(makeTable("Weights by kind", columns, memory.weights));
}

export function showProof({proof, limits, version}) {
  const within = limits.map(({symbol, lo, hi}) => `${symbol} in [${number(lo)}, ${number(hi)}]`).join(", ");
  const facts = [
    ["verdict", `${proof.verdict}, by ${version}`],
    ["for all values of", within],
    ["statements by form", number(proof.symbolic)],
    ["statements at each value", number(proof.enumerated)],
    ["statements by lemma", number(proof.lemmas)],
    ["events", `${number(proof.events)}, with ${counted(proof.counters, "counter")}`],
    ["schedule", proof.schedule],
  ];
  byId("proof-text")
      .replaceChildren(
          make("p", {textContent: proof.text}),
          make(
              "dl", {className: "facts"},
              ...facts.flatMap(
                  ([name, value]) => [make("dt", {textContent: name}), make("dd", {textContent: value})])));
}
