// A timeline on a canvas: rows of workers, bars of tasks, an axis of time. Mouse and keys are in
// timeline_input.js.

import {kindOf} from "./trace.js";

const AXIS = 22;  // pixels of the axis
const ROW = {
  min: 7,
  max: 40,
  gap: 3
};
const LABEL_HEIGHT = 13;  // pixels of a row's label
const MIN_SPAN = 5;       // the shortest view, in the trace's unit
const MIN_NAMED = 26;     // pixels of a bar that shows its name
const MIN_PARTED = 6;     // pixels of a bar that has a gap behind it
const DIMMED = 0.15;

const clamp = (value, min, max) => Math.min(Math.max(value, min), max);

// Returns a step of 1, 2 or 5 times a power of ten, of which `span` holds at most `most`.
function niceStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return power * [1, 2, 5, 10].find((factor) => span / (power * factor) <= most);
}

// Returns the index of the first bar that ends behind a time.
function firstEnding(bars, time) {
  let low = 0;
  let high = bars.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (bars[middle].end <= time)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

export class Timeline {
  trace = null;
  view = {from: 0, to: 1, top: 0};  // times of the trace, and pixels above the first row shown
  picked = null;                    // {row, bar}: indices of the bar with a frame
  kind = null;                      // name of the one kind that is not dimmed
  links = [];                       // {from, to}: places of bars with a line between them

  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(trace) {
    this.trace = trace;
    this.picked = null;
    this.links = [];
    const colours = new Map(trace.kinds.map((kind) => [kind.name, this.colourOf(kind)]));
    this.grids = trace.grids.map((name) => ({name, kind: kindOf(name), colour: colours.get(kindOf(name))}));
    this.showAll();
    this.resize();
  }

  // Returns the colour of a kind. Neighbours differ in hue and in lightness.
  colourOf({colour}) {
    const lightness = [0.78, 0.64, 0.71][colour % 3];
    return `oklch(${lightness} 0.125 ${(colour * 137.5 + 30) % 360})`;
  }

  showAll() {
    this.view = {from: 0, to: Math.max(this.trace.end, MIN_SPAN), top: 0};
    this.draw();
  }

  resize() {
    if (!this.trace) return;
    const rows = Math.max(this.trace.rows.length, 1);
    const most = clamp(innerHeight * 0.7, 240, 640);
    this.rowHeight = clamp(Math.floor((most - AXIS) / rows), ROW.min, ROW.max);
    this.width = this.canvas.parentElement.clientWidth;
    this.height = Math.min(rows * this.rowHeight + AXIS, most);
    this.gutter = this.width < 500 ? 34 : 84;  // pixels of the rows' labels
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(this.width * devicePixelRatio);
    this.canvas.height = Math.round(this.height * devicePixelRatio);
    this.paint();  // at once, as a canvas of a new size is empty
  }

  toX(time) {
    const {from, to} = this.view;
    return this.gutter + ((time - from) / (to - from)) * (this.width - this.gutter);
  }

  toTime(x) {
    const {from, to} = this.view;
    return from + ((x - this.gutter) / (this.width - this.gutter)) * (to - from);
  }

  toY(row) {
    return AXIS + row * this.rowHeight - this.view.top;
  }

  isWhole() {
    return this.view.from <= 0 && this.view.to >= this.trace.end;
  }

  // Changes the view, which stays within the trace.
  setView(from, to, top = this.view.top) {
    const end = Math.max(this.trace.end, MIN_SPAN);
    const span = clamp(to - from, MIN_SPAN, end);
    const begin = clamp(from, 0, end - span);
    const below = this.trace.rows.length * this.rowHeight + AXIS - this.height;
    this.view = {from: begin, to: begin + span, top: clamp(top, 0, Math.max(0, below))};
    this.draw();
  }

  // Returns the x around which keys and buttons zoom: that of the picked bar, if it is in the view.
  zoomCentre() {
    const bar = this.picked && this.barOf(this.picked);
    const x = bar ? this.toX((bar.begin + bar.end) / 2) : 0;
    return x >= this.gutter && x <= this.width ? x : (this.gutter + this.width) / 2;
  }

  // Makes the view longer by a factor. The time at x stays where it is.
  zoom(factor, x = this.zoomCentre()) {
    const {from, to} = this.view;
    const fixed = clamp(this.toTime(x), from, to);
    const span = clamp((to - from) * factor, MIN_SPAN, Math.max(this.trace.end, MIN_SPAN));
    const left = fixed - ((fixed - from) / (to - from)) * span;
    this.setView(left, left + span);
  }

  // Returns {row, bar} of the bar at a point of the canvas, or null. A bar that is too thin counts as 3
  // pixels wide.
  find(x, y) {
    if (!this.trace || x < this.gutter || y < AXIS) return null;
    const row = Math.floor((y - AXIS + this.view.top) / this.rowHeight);
    const bars = this.trace.rows[row]?.bars;
    if (!bars) return null;
    const bar = firstEnding(bars, this.toTime(x - 1.5));
    return bar < bars.length && this.toX(bars[bar].begin) <= x + 1.5 ? {row, bar} : null;
  }

  barOf(place) {
    return this.trace.rows[place.row].bars[place.bar];
  }

  // Puts a frame around a bar, and moves the view so that the bar is in it.
  pick(place) {
    this.picked = place;
    const {begin, end} = this.barOf(place);
    const {from, to, top} = this.view;
    const span = to - from;
    const left = begin < from || end > to ? (begin + end - span) / 2 : from;
    const y = place.row * this.rowHeight;
    this.setView(left, left + span, clamp(top, y + this.rowHeight + AXIS - this.height, y));
  }

  // Draws at the next frame, and once for all calls before it.
  draw() {
    if (!this.trace || !this.width) return;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  paint() {
    const c = this.context;
    const style = getComputedStyle(this.canvas);
    this.ink = style.color;
    this.line = style.getPropertyValue("--line");
    this.muted = style.getPropertyValue("--muted");
    c.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.font = `11px ${style.fontFamily}`;
    c.textBaseline = "middle";
    this.paintAxis();
    c.save();
    c.beginPath();
    c.rect(0, AXIS, this.width, this.height - AXIS);
    c.clip();
    this.trace.rows.forEach((row, i) => this.paintRow(row, i));
    this.paintLinks();
    this.paintScrollBar();
    c.restore();
  }

  paintAxis() {
    const c = this.context;
    const {from, to} = this.view;
    const unit = this.trace.timed ? 1000 : 1;  // ns of a µs
    const step = niceStep((to - from) / unit, (this.width - this.gutter) / 90) * unit;
    c.textAlign = "left";
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const x = Math.round(this.toX(time)) + 0.5;
      c.fillStyle = this.line;
      c.fillRect(x, 0, 1, this.height);
      c.fillStyle = this.muted;
      const text = `${+ (time / unit).toPrecision(6)}${this.trace.timed ? " µs" : ""}`;
      if (x + c.measureText(text).width < this.width) c.fillText(text, x + 4, AXIS / 2);
    }
  }

  paintRow(row, index) {
    const y = this.toY(index);
    if (y + this.rowHeight < AXIS || y > this.height) return;
    const c = this.context;
    const height = this.rowHeight - ROW.gap;
    this.paintLabel(row, index, y + Math.max(height, LABEL_HEIGHT) / 2);
    c.save();
    c.beginPath();
    c.rect(this.gutter, y - 1, this.width - this.gutter, this.rowHeight + 1);
    c.clip();
    for (const bar of this.visibleBars(row.bars)) this.paintBar(bar, y, height);
    c.restore();
    if (this.picked?.row === index) this.paintFrame(this.barOf(this.picked), y, height);
  }

  // Returns the bars in the view. The longest stands for all that begin within one pixel and are shorter.
  visibleBars(bars) {
    const visible = [];
    const pixel = (this.view.to - this.view.from) / (this.width - this.gutter);
    let column = -1;  // pixel of the last short bar
    for (let i = firstEnding(bars, this.view.from); i < bars.length && bars[i].begin <= this.view.to; ++i) {
      const bar = bars[i];
      const at = bar.end - bar.begin < pixel ? Math.floor(bar.begin / pixel) : -1;
      if (at < 0 || at !== column)
        visible.push(bar);
      else if (bar.end - bar.begin > visible.at(-1).end - visible.at(-1).begin)
        visible[visible.length - 1] = bar;
      column = at;
    }
    return visible;
  }

  // Paints the label of a row, or of one of several where rows are low.
  paintLabel(row, index, y) {
    if (index % Math.ceil(LABEL_HEIGHT / this.rowHeight) !== 0) return;
    const c = this.context;
    const name = row.loader ? ["ld", "loader"] : ["w", "worker "];
    c.fillStyle = this.muted;
    c.textAlign = "left";
    c.fillText(this.gutter > 50 ? `${name[1]} ${row.worker}` : `${name[0]}${row.worker}`, 2, y);
  }

  // Paints a task as a bar with its name, and a wait as a line.
  paintBar(bar, y, height) {
    const c = this.context;
    const x = this.toX(bar.begin);
    const width = Math.max(this.toX(bar.end) - x, 0.75);
    const {name, kind, colour} = this.grids[bar.grid];
    const dimmed = this.kind !== null && this.kind !== kind;
    c.globalAlpha = (dimmed ? DIMMED : 1) * (bar.loader ? 0.6 : 1);
    c.fillStyle = bar.waits ? this.muted : colour;
    if (bar.waits)
      c.fillRect(x, y + height / 2 - 1, width, 2);
    else
      c.fillRect(x, y, width > MIN_PARTED ? width - 0.75 : width, height);
    c.globalAlpha = 1;
    if (bar.waits || dimmed || width < MIN_NAMED || height < LABEL_HEIGHT) return;
    this.paintName(name, kind, Math.max(x, this.gutter), x + width, y + height / 2);
  }

  paintName(name, kind, left, right, y) {
    const c = this.context;
    const room = right - left - 6;
    const text = [name, kind].find((t) => c.measureText(t).width <= room);
    if (!text) return;
    c.fillStyle = "#10161c";
    c.textAlign = "left";
    c.fillText(text, left + 3, y + 0.5);
  }

  // Paints a line from the end of each link's first bar to the begin of its second.
  paintLinks() {
    const c = this.context;
    const toPoint =
        ({row, bar},
         side) => [this.toX(this.barOf({row, bar})[side]), this.toY(row) + (this.rowHeight - ROW.gap) / 2];
    c.save();
    c.beginPath();
    c.rect(this.gutter, AXIS, this.width - this.gutter, this.height - AXIS);
    c.clip();
    c.strokeStyle = this.ink;
    c.lineWidth = 1.25;
    c.beginPath();
    for (const {from, to} of this.links) {
      if (this.barOf(to).begin < this.view.from || this.barOf(from).end > this.view.to) continue;
      c.moveTo(...toPoint(from, "end"));
      c.lineTo(...toPoint(to, "begin"));
      c.lineTo(...toPoint(to, "end"));
    }
    c.stroke();
    c.restore();
  }

  // Shows which of the rows are in the view, where not all are.
  paintScrollBar() {
    const all = this.trace.rows.length * this.rowHeight;
    const shown = this.height - AXIS;
    if (all <= shown) return;
    this.context.fillStyle = this.muted;
    this.context.fillRect(this.width - 4, AXIS + (this.view.top / all) * shown, 4, (shown / all) * shown);
  }

  paintFrame(bar, y, height) {
    const c = this.context;
    const x = clamp(this.toX(bar.begin), this.gutter + 1, this.width);
    const right = clamp(this.toX(bar.end), this.gutter + 1, this.width - 1);
    c.strokeStyle = this.ink;
    c.lineWidth = 2;
    c.strokeRect(x, y, Math.max(right - x, 2), height);
  }
}
