// A timeline with what belongs to it: a tip under the mouse, a line on the picked bar, and a legend.

import {counted, duration, make} from "./dom.js";
import {Timeline} from "./timeline.js";
import {listen, listenToButtons} from "./timeline_input.js";

export class TimelinePanel {
  // `parts` are the elements canvas, tip, picked, legend, zoomIn, zoomOut and zoomAll. `moreOf` returns
  // further lines on the bar at a place. `onPick` gets the place of each bar that is picked.
  constructor(parts, {moreOf = () => [], onPick = () => {}} = {}) {
    this.parts = parts;
    this.timeline = new Timeline(parts.canvas);
    this.moreOf = moreOf;
    this.onPick = onPick;
    listen(this.timeline, {
      onPick: (place) => this.showPicked(place),
      onHover: (place, event) => this.showTip(place, event),
    });
    listenToButtons(this.timeline, parts.zoomIn, parts.zoomOut, parts.zoomAll);
  }

  show(trace) {
    this.timeline.kind = null;
    this.timeline.show(trace);
    this.parts.picked.textContent = "";
    this.showLegend(trace);
  }

  // Returns a time of the trace with its unit. An emulator counts, and has no times.
  timeText(time) {
    return this.timeline.trace.timed ? duration(time / 1e6) : counted(time, "reading");
  }

  // Returns what a bar is, as lines.
  linesOf(place) {
    const bar = this.timeline.barOf(place);
    const {worker} = this.timeline.trace.rows[place.row];
    const grid = this.timeline.trace.grids[bar.grid];
    const last = bar.first + bar.tasks - 1;
    const tasks = bar.tasks > 1 ? `tasks ${bar.first} to ${last}` : `task ${bar.first}`;
    const who = `${bar.loader ? "loader of worker" : "worker"} ${worker}`;
    const lines = [`${bar.waits ? "wait for inputs of " : ""}${grid}`, `${tasks}, ${who}`];
    lines.push(`${this.timeText(bar.end - bar.begin)}, from ${this.timeText(bar.begin)}`);
    if (bar.ring) lines.push(`${this.timeText(bar.ring)} of it waiting for the ring`);
    return [...lines, ...this.moreOf(place)];
  }

  showPicked(place) {
    this.parts.picked.textContent = this.linesOf(place).join(" · ");
    this.onPick(place);
  }

  showTip(place, event) {
    const {tip} = this.parts;
    tip.hidden = place === null;
    if (!place) return;
    const [name, ...rest] = this.linesOf(place);
    tip.replaceChildren(
        make("strong", {textContent: name}), ...rest.map((line) => make("span", {textContent: line})));
    const room = this.timeline.width - tip.offsetWidth - 4;
    tip.style.left = `${Math.max(0, Math.min(event.offsetX + 14, room))}px`;
    tip.style.top = `${event.offsetY + 18}px`;
  }

  highlight(kind) {
    this.timeline.kind = this.timeline.kind === kind ? null : kind;
    this.timeline.draw();
    for (const button of this.parts.legend.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.value === this.timeline.kind));
  }

  legendEntry(kind, total) {
    const swatch = make("span", {className: "swatch"});
    swatch.style.background = this.timeline.colourOf(kind);
    const share = make("span", {className: "share", textContent: this.timeText(Math.round(kind.time))});
    const tasks = make("span", {className: "muted", textContent: counted(kind.tasks, "task")});
    const bar = make("span", {className: "amount"});
    bar.style.width = `${(100 * kind.time) / total}%`;
    const button = make(
        "button", {type: "button", value: kind.name}, swatch,
        make("span", {className: "kind", textContent: kind.name}), tasks, share, bar);
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => this.highlight(kind.name));
    return button;
  }

  showLegend({kinds}) {
    const most = Math.max(...kinds.map((kind) => kind.time), 1);
    this.parts.legend.replaceChildren(
        ...kinds.filter((kind) => kind.tasks).map((kind) => this.legendEntry(kind, most)));
  }
}
