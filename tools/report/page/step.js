// The timeline of the step: measured or simulated, with the critical path and what each bar waited for.

import {byId, counted, make} from "./dom.js";
import {stepOf, TaskIndex} from "./step_data.js";
import {TimelinePanel} from "./timeline_panel.js";
import {kindOf} from "./trace.js";

// Returns the links between neighbours on the critical path whose bars differ.
function pathLinks(path, index) {
  const links = [];
  let from = null;
  for (let i = 0; i < path.length; i += 2) {
    const to = index.find(path[i], path[i + 1]);
    if (from && to && (from.row !== to.row || from.bar !== to.bar)) links.push({from, to});
    from = to ?? from;
  }
  return links;
}

// Returns a map from the number of grid and task to the position in `awaited` of what it waited for.
function awaitsOf(awaited, grids) {
  const awaits = new Map();
  for (let i = 0; i < awaited.length; i += 4) awaits.set(awaited[i] + awaited[i + 1] * grids, i + 2);
  return awaits;
}

class StepView {
  constructor(data) {
    this.data = data;
    this.steps = data.timelines.map(() => null);  // made when they are first shown
    this.awaits = awaitsOf(data.awaited, data.grids.length);
    this.panel = new TimelinePanel(
        {
          canvas: byId("timeline"),
          tip: byId("tip"),
          picked: byId("picked"),
          legend: byId("legend"),
          zoomIn: byId("zoom-in"),
          zoomOut: byId("zoom-out"),
          zoomAll: byId("zoom-all")
        },
        {moreOf: (place) => this.moreOf(place), onPick: (place) => this.showAwaited(place)});
    byId("path").addEventListener("change", () => this.showPath());
  }

  // The last timeline is the simulated one, whose waits and critical path are known.
  isSimulated() {
    return this.shown === this.steps.length - 1;
  }

  show(number) {
    this.shown = number;
    const step = this.steps[number] ??=
        stepOf(this.data.timelines[number], this.data.grids.map(({grid}) => grid));
    this.index = new TaskIndex(step);
    this.panel.show(step);
    byId("path").disabled = !this.isSimulated();
    const bars = step.rows.reduce((sum, row) => sum + row.bars.length, 0);
    const parts =
        [step.name, this.panel.timeText(step.end), counted(step.workers, "worker"), counted(bars, "bar")];
    if (step.joined)
      parts.push(`bars of one grid less than ${this.panel.timeText(step.joined)} apart are joined`);
    byId("step-about").textContent = parts.join(" · ");
    for (const button of byId("timelines").children)
      button.setAttribute("aria-pressed", String(button.value === String(number)));
    this.showPath();
  }

  showPath() {
    const {timeline} = this.panel;
    const shown = byId("path").checked && this.isSimulated();
    timeline.links = shown ? pathLinks(this.data.path, this.index) : [];
    timeline.draw();
  }

  // Returns {grid, task, place} of the task that notified a bar's first task last, or null. `place` is that
  // of its bar. Only the simulation knows it.
  awaitedOf(place) {
    const {grid, first} = this.panel.timeline.barOf(place);
    const at = this.isSimulated() ? this.awaits.get(grid + first * this.data.grids.length) : undefined;
    if (at === undefined) return null;
    const [by, task] = this.data.awaited.slice(at, at + 2);
    return {grid: by, task, place: this.index.find(by, task)};
  }

  // Returns the events that a wait is for, and what a bar's last input came from.
  moreOf(place) {
    const {timeline} = this.panel;
    const bar = timeline.barOf(place);
    const events = this.data.kinds[this.data.grids[bar.grid].kind].in.map(({event}) => kindOf(event));
    const lines = bar.waits && events.length ? [`events ${events.join(", ")}`] : [];
    const awaited = bar.loader ? null : this.awaitedOf(place);
    if (!awaited) return lines;
    const worker = awaited.place ? `, worker ${timeline.trace.rows[awaited.place.row].worker}` : "";
    return [...lines, `last input from ${this.data.grids[awaited.grid].grid} task ${awaited.task}${worker}`];
  }

  // Draws a line to the picked bar from the one that made its last input.
  showAwaited(place) {
    this.showPath();
    const {timeline} = this.panel;
    const {grid, first, loader} = timeline.barOf(place);
    const from = loader ? null : this.awaitedOf(place)?.place;
    const to = this.index.find(grid, first);
    if (from && to) timeline.links = [...timeline.links, {from, to}];
  }
}

// Shows the measured timeline if there is one, else the simulated. Returns the colour of an operator by name.
export function showStep(data) {
  const view = new StepView(data);
  if (data.timelines.length > 1)
    data.timelines.forEach(({name}, i) => {
      const button = make("button", {type: "button", value: String(i), textContent: name});
      button.addEventListener("click", () => view.show(i));
      byId("timelines").append(button);
    });
  view.show(0);
  const {timeline} = view.panel;
  const colours = new Map(timeline.trace.kinds.map((kind) => [kind.name, timeline.colourOf(kind)]));
  return (name) => colours.get(name);
}
