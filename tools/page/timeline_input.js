// Mouse, touch and keys of a timeline.

const WHEEL = 0.0015;  // zoom of a unit of the wheel
const STEP = 0.7;      // zoom of a key or a button
const PAN = 0.2;       // share of the view that a key moves it by
const DRAG = 3;        // pixels behind which a press is a drag

// Returns the place of the bar that a key goes to from another one.
function neighbour(timeline, place, key) {
  const {rows} = timeline.trace;
  if (!place) return rows.length ? {row: 0, bar: 0} : null;
  if (key === "ArrowLeft") return {...place, bar: Math.max(place.bar - 1, 0)};
  if (key === "ArrowRight") return {...place, bar: Math.min(place.bar + 1, rows[place.row].bars.length - 1)};
  const row = place.row + (key === "ArrowDown" ? 1 : -1);
  if (!rows[row]) return place;
  const {begin} = timeline.barOf(place);
  const bar = rows[row].bars.findIndex((other) => other.end > begin);
  return {row, bar: bar < 0 ? rows[row].bars.length - 1 : bar};
}

function pan(timeline, share) {
  const {from, to} = timeline.view;
  timeline.setView(from + share * (to - from), to + share * (to - from));
}

// Lets keys walk along the bars, zoom and move the view. `onPick` gets the place of each bar that is walked
// to.
function listenToKeys(timeline, onPick) {
  const zooms = {
    "+": () => timeline.zoom(STEP),
    "=": () => timeline.zoom(STEP),
    w: () => timeline.zoom(STEP),
    "-": () => timeline.zoom(1 / STEP),
    s: () => timeline.zoom(1 / STEP),
    a: () => pan(timeline, -PAN),
    d: () => pan(timeline, PAN),
    0: () => timeline.showAll()
  };
  timeline.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !timeline.trace) return;
    if (event.key.startsWith("Arrow")) {
      const place = neighbour(timeline, timeline.picked, event.key);
      if (place) timeline.pick(place);
      if (place) onPick(place);
    } else if (zooms[event.key]) {
      zooms[event.key]();
    } else {
      return;
    }
    event.preventDefault();
  });
}

// Lets the wheel zoom where the timeline has the focus. A wheel that could zoom out no further scrolls the
// page.
function listenToWheel(timeline) {
  const {canvas} = timeline;
  canvas.addEventListener(
      "wheel",
      (event) => {
        const isOurs = document.activeElement === canvas || event.ctrlKey;
        if (!isOurs || !timeline.trace || (event.deltaY > 0 && timeline.isWhole())) return;
        event.preventDefault();
        const {from, to, top} = timeline.view;
        if (event.shiftKey)
          timeline.setView(from, to, top + event.deltaY);
        else
          timeline.zoom(Math.exp(event.deltaY * WHEEL), event.offsetX);
      },
      {passive: false},
  );
}

// Lets a drag move the view, and a press without a drag pick a bar.
function listenToDrags(timeline, onPick) {
  const {canvas} = timeline;
  let press = null;  // where it began, and the view then
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !timeline.trace) return;
    press = {x: event.offsetX, y: event.offsetY, view: timeline.view, moved: false};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!press) return;
    const dx = event.offsetX - press.x;
    const dy = event.offsetY - press.y;
    press.moved ||= Math.hypot(dx, dy) > DRAG;
    if (!press.moved) return;
    const {from, to, top} = press.view;
    const time = (dx / (timeline.width - timeline.gutter)) * (to - from);
    timeline.setView(from - time, to - time, top - dy);
  });
  canvas.addEventListener("pointerup", (event) => {
    const place = press && !press.moved ? timeline.find(event.offsetX, event.offsetY) : null;
    press = null;
    if (place) timeline.pick(place);
    if (place) onPick(place);
  });
  canvas.addEventListener("pointercancel", () => (press = null));
  canvas.addEventListener("dblclick", () => timeline.trace && timeline.showAll());
}

// Connects a timeline with its canvas. `onHover` gets the place under the mouse, or null, and the event.
export function listen(timeline, {onPick, onHover}) {
  listenToKeys(timeline, onPick);
  listenToWheel(timeline);
  listenToDrags(timeline, onPick);
  const {canvas} = timeline;
  canvas.addEventListener("pointermove", (event) => {
    onHover(event.buttons ? null : timeline.find(event.offsetX, event.offsetY), event);
  });
  canvas.addEventListener("pointerleave", (event) => onHover(null, event));
}

// Makes a button zoom: in, out, or to the whole trace.
export function listenToButtons(timeline, zoomIn, zoomOut, all) {
  zoomIn.addEventListener("click", () => timeline.zoom(STEP));
  zoomOut.addEventListener("click", () => timeline.zoom(1 / STEP));
  all.addEventListener("click", () => timeline.showAll());
}
