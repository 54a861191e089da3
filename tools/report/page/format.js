// Numbers for people, and tables that sort.

import {make, number} from "./dom.js";

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const NEXT_UNIT = 999.5;  // three digits of more would be 1.00e+3

// Returns bytes with their unit, a power of 1000.
export function bytesText(bytes) {
  let unit = 0;
  while (bytes >= (unit ? NEXT_UNIT : 1000) && unit < UNITS.length - 1) {
    bytes /= 1000;
    ++unit;
  }
  return `${unit ? bytes.toPrecision(3) : bytes} ${UNITS[unit]}`;
}

// Returns microseconds with a unit that suits them.
export function usText(us) {
  if (us >= 1e5) return `${number(us / 1e3)} ms`;
  return `${us >= 1000 ? number(us) : us < 1e-3 ? 0 : +us.toPrecision(3)} µs`;
}

export const percent = (part) => `${(100 * part).toFixed(1)} %`;

function sortBy(table, column, index) {
  const head = table.tHead.rows[0].cells;
  const ascends = head[index].ariaSort ? head[index].ariaSort === "descending" : !column.numeric;
  for (const cell of head) cell.ariaSort = null;
  head[index].ariaSort = ascends ? "ascending" : "descending";
  const sign = ascends ? 1 : -1;
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => sign * order(column.value(a.item), column.value(b.item)));
  table.tBodies[0].append(...rows);
}

// Makes a table of items. A column is {name, value, show, numeric}: `value` sorts, `show` makes what is in
// the cell. Headings are buttons that sort.
export function makeTable(caption, columns, items) {
  const head = make("tr");
  const body = make("tbody");
  const table = make(
      "table", {}, make("caption", {className: "hidden-text", textContent: caption}), make("thead", {}, head),
      body);
  columns.forEach((column, i) => {
    const button = make("button", {type: "button", textContent: column.name, title: column.help ?? ""});
    button.addEventListener("click", () => sortBy(table, column, i));
    head.append(make("th", {scope: "col", className: column.numeric ? "numeric" : ""}, button));
  });
  for (const item of items) {
    const cells = columns.map(
        (column) =>
            make("td", {className: column.numeric ? "numeric" : ""}, (column.show ?? column.value)(item)));
    body.append(Object.assign(make("tr", {}, ...cells), {item}));
  }
  return table;
}

// Makes a title, a bar of parts, and a list that names them. A part is {name, amount, text, colour, help}.
export function makeStack(title, parts, textOf, whole = null) {
  const all = whole ?? parts.reduce((total, part) => total + part.amount, 0);
  const bar = make("div", {className: "stack", ariaHidden: "true"});
  const list = make("ul", {className: "parts"});
  for (const part of parts.filter(({amount}) => amount > 0)) {
    const piece = make("span", {title: `${part.name}: ${textOf(part.amount)}`});
    piece.style.background = part.colour;
    piece.style.width = `${(100 * part.amount) / all}%`;
    bar.append(piece);
    const swatch = make("span", {className: "swatch"});
    swatch.style.background = part.colour;
    list.append(make(
        "li", {}, swatch, make("strong", {textContent: part.name}),
        make("span", {className: "muted", textContent: part.help ?? ""}),
        make("span", {className: "amount-text", textContent: textOf(part.amount)}),
        make("span", {className: "share-text", textContent: percent(part.amount / all)})));
  }
  return make("div", {}, make("h3", {textContent: title}), bar, list);
}
