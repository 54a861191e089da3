// The op graph of a layer: a box for each grid, with its ops, and edges for what it reads.

import {byId, counted, make} from "./dom.js";
import {bytesText} from "./format.js";
import {layOut, pathOf} from "./layout.js";
import {kindOf} from "./trace.js";

const BOX = {
  width: 164,
  head: 30,
  line: 18,
  foot: 22
};
const STUB = {
  width: 76,
  height: 24
};
const MARGIN = 8;
const MAX_LABEL = 25;  // characters of a line

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const cut = (text) => (text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL - 1)}…` : text);
const write = (x, y, text, className) => svg("text", {x, y, class: className}, cut(text));

// Returns the operands of an op as rows of a table.
function operandRows(op) {
  const row = (way, {role, tensor, type, shape, bytes}) => make(
      "tr", {}, make("td", {textContent: way}), make("td", {textContent: role}),
      make("td", {}, make("code", {textContent: tensor})), make("td", {textContent: type}),
      make("td", {}, make("code", {textContent: shape})),
      make("td", {className: "numeric", textContent: bytesText(bytes)}));
  return [...op.inputs.map((o) => row("in", o)), ...op.outputs.map((o) => row("out", o))];
}

function attrsText(attrs) {
  return Object.entries(attrs).map(([name, value]) => `${name} ${+ value.toPrecision(6)}`).join(", ");
}

// Shows an op: what it reads and writes, and the grid that it became a part of.
function showOp(node, op) {
  const head = make(
      "tr", {}, ...["", "role", "tensor", "type", "shape", "bytes"].map((t) => make("th", {textContent: t})));
  const attrs = attrsText(op.attrs);
  byId("node").replaceChildren(
      make("h3", {}, make("code", {textContent: op.op}), " → grid ", make("code", {textContent: node.grid})),
      make("p", {
        className: "muted",
        textContent: `${node.body}, ${counted(node.tasks, "task")}${attrs ? ` · ${attrs}` : ""}`
      }),
      make(
          "div", {className: "scroll"},
          make("table", {}, make("thead", {}, head), make("tbody", {}, ...operandRows(op)))));
}

// Shows a grid: its ops, and what it waits for.
function showNode(node, kind) {
  const ops = node.ops.map(({op}) => op).join(", ");
  const lines = [`${node.body} of ${counted(node.tasks, "task")}, ${bytesText(node.bytes)} a step: ${
      ops || "no op of its own"}`];
  if (kind) lines.push(`placed as ${kind.placement}: ${kind.reason}`);
  if (kind?.["not fused"]) lines.push(`not fused: ${kind["not fused"]}`);
  byId("node").replaceChildren(
      make("h3", {}, "grid ", make("code", {textContent: node.grid})),
      ...lines.map((textContent) => make("p", {className: "muted", textContent})));
}

function showEdge(edge, name) {
  const lines = edge.tensors.map(
      ({tensor, type, bytes}) =>
          make("p", {}, make("code", {textContent: tensor}), ` ${type}, ${bytesText(bytes)}`));
  byId("node").replaceChildren(make("h3", {textContent: name}), ...lines);
}

// Lets an element show something when it is pointed at or has the focus.
function onLook(element, show) {
  for (const event of ["pointerenter", "focus", "click"])
    element.addEventListener(event, (e) => {
      e.stopPropagation();
      show();
    });
}

function opLine(node, op, y) {
  const short = kindOf(op.outputs[0]?.tensor ?? "");
  const line =
      svg("g",
          {class: "op", tabindex: 0, role: "button", "aria-label": `${op.op} ${short}, in grid ${node.grid}`},
          svg("rect", {x: node.x + 5, y: y - 13, width: BOX.width - 10, height: BOX.line - 1, rx: 4}),
          write(node.x + 11, y, `${op.op} ${short}`, "op-name"));
  onLook(line, () => showOp(node, op));
  return line;
}

function drawNode(node, kind, colour) {
  const {x, y, width, height} = node;
  if (node.stub) {
    return svg(
        "g", {class: "stub"}, svg("rect", {x, y, width, height, rx: height / 2}),
        svg("text", {x: x + width / 2, y: y + 16, "text-anchor": "middle"}, cut(node.stub)));
  }
  const box = svg(
      "g", {class: "grid-box", tabindex: 0, role: "group", "aria-label": `grid ${node.grid}`},
      svg("rect", {x, y, width, height, rx: 8, class: "box"}),
      svg("rect", {x, y: y + 8, width: 4, height: height - 16, fill: colour}),
      write(x + 11, y + 20, kindOf(node.grid), "box-name"),
      svg("text", {x: x + width - 9, y: y + 20, "text-anchor": "end", class: "box-body"}, node.body),
      ...node.ops.map((op, i) => opLine(node, op, y + BOX.head + 13 + i * BOX.line)),
      write(x + 11, y + height - 8, `${counted(node.tasks, "task")} · ${bytesText(node.bytes)}`, "box-body"));
  onLook(box, () => showNode(node, kind));
  return box;
}

function drawEdge(edge, nodes) {
  const nameOf = (node) => node.stub ?? kindOf(node.grid);
  const name = `${nameOf(nodes[edge.from])} → ${nameOf(nodes[edge.to])}`;
  const d = pathOf(edge);
  const line =
      svg("g", {class: "edge"}, svg("path", {d, class: "line", "marker-end": "url(#arrow)"}),
          svg("path", {d, class: "reach"}),
          svg("title", {}, `${name}: ${edge.tensors.map(({tensor}) => kindOf(tensor)).join(", ")}`));
  onLook(line, () => showEdge(edge, name));
  return line;
}

// Returns nodes and edges of a section for the layout. A grid elsewhere becomes a stub.
function graphOf(section) {
  const stubs = [...new Set(section.edges.map(({from}) => from).filter((from) => typeof from === "string"))];
  const height = (node) => BOX.head + BOX.foot + node.ops.length * BOX.line;
  const nodes = [
    ...stubs.map((stub) => ({stub, ...STUB})),
    ...section.nodes.map((node) => ({...node, width: BOX.width, height: height(node)})),
  ];
  const place = (from) => (typeof from === "string" ? stubs.indexOf(from) : stubs.length + from);
  const edges = section.edges.map((edge) => ({...edge, from: place(edge.from), to: stubs.length + edge.to}));
  return {nodes, edges};
}

function draw(section, data, colourOf) {
  const {nodes, edges} = graphOf(section);
  const {width, height} = layOut(nodes, edges);
  const [w, h] = [width + 2 * MARGIN, height + 2 * MARGIN];
  const arrow = svg(
      "marker",
      {id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"},
      svg("path", {d: "M0 0L8 4L0 8Z"}));
  const kindOfNode = (node) => (node.stub ? null : data.kinds[data.grids[node.id].kind]);
  byId("drawing").replaceChildren(
      svg("svg", {
        width: w,
        height: h,
        viewBox: `${- MARGIN} ${- MARGIN} ${w} ${h}`,
        role: "group",
        "aria-label": titleOf(section)
      },
          svg("defs", {}, arrow), ...edges.map((edge) => drawEdge(edge, nodes)),
          ...nodes.map(
              (node) => drawNode(node, kindOfNode(node), node.stub ? "" : colourOf(kindOf(node.grid))))));
  const first = nodes.find((node) => !node.stub);
  showNode(first, kindOfNode(first));
}

function titleOf({layer, last, layers}) {
  if (layer < 0) return "outside of layers";
  if (layers === 1) return `layer ${layer}`;
  return layers === last - layer + 1 ? `layers ${layer} to ${last}, alike` :
                                       `layer ${layer}, like ${layers - 1} others`;
}

// Returns the number of the section that stands for most layers.
function mostLayers(sections) {
  const layers = sections.map((section) => (section.layer < 0 ? 0 : section.layers));
  return layers.indexOf(Math.max(...layers));
}

// Shows the section of most layers, and lets others be chosen.
export function showGraph(data, colourOf) {
  const select = byId("section");
  data.graph.forEach(
      (section, i) => select.append(make("option", {value: String(i), textContent: titleOf(section)})));
  const most = mostLayers(data.graph);
  select.value = String(most);
  select.addEventListener("change", () => draw(data.graph[Number(select.value)], data, colourOf));
  draw(data.graph[most], data, colourOf);
}
