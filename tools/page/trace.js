// A trace file of mkc (docs/trace.md) as bars of a timeline.

const TRACKS = 2;                       // of a worker: its consumers', its loader's
const NUMBERS = 5;                      // of a stamp: time, kind, grid, task, ring
const REACHED_TO_BEGUN = 2, ENDED = 3;  // stamps that end a wait, and a task

// Returns a grid's name without its layer: "l0.gate_up" is of the kind "gate_up".
export const kindOf = (grid) => grid.replace(/^l\d+\./, "");

// Returns the bars of a track: {grid, waits, loader, first, tasks, begin, end, ring}. Times are in the file's
// unit.
function barsOf(stamps, loader) {
  const bars = [];
  let since = 0;
  let first = 0;
  for (let i = 0; i < stamps.length; i += NUMBERS) {
    const [time, kind, grid, task, ring] = stamps.slice(i, i + NUMBERS);
    const bar = {grid, loader, waits: false, first, tasks: task - first, begin: since, end: time, ring};
    if (kind === REACHED_TO_BEGUN && !loader) bars.push({...bar, waits: true, first: task, tasks: 1});
    if (kind === ENDED) bars.push(bar);
    since = time;
    first = task;
  }
  return bars;
}

// Returns what each kind of grid takes, the longest first: tasks, and time of tasks as the mean of all
// workers.
export function kindsOf(names, rows, workers) {
  const kinds = new Map(names.map((name) => [kindOf(name), {name: kindOf(name), tasks: 0, time: 0}]));
  for (const bar of rows.flatMap((row) => (row.loader ? [] : row.bars))) {
    if (bar.waits) continue;
    const kind = kinds.get(kindOf(names[bar.grid]));
    kind.tasks += bar.tasks;
    kind.time += (bar.end - bar.begin) / workers;
  }
  return [...kinds.values()].map((kind, colour) => ({...kind, colour})).sort((a, b) => b.time - a.time);
}

const sum = (list, value) => list.reduce((total, item) => total + value(item), 0);

// Returns a trace with rows of bars. A row without bars is left out. `timed` tells times in ns from counts.
export function readTrace(file) {
  const tracks = file.tracks.map((track, i) => ({
                                   worker: Math.floor(i / TRACKS),
                                   loader: i % TRACKS === 1,
                                   bars: barsOf(track.stamps, i % TRACKS === 1),
                                 }));
  const workers = file.tracks.length / TRACKS;
  const rows = tracks.filter((track) => track.bars.length);
  const waits = rows.flatMap((row) => (row.loader ? [] : row.bars.filter((bar) => bar.waits)));
  return {
    device: file.device,
    timed: file.unit === "ns",
    grids: file.grids,
    requests: file.requests,
    workers,
    rows,
    kinds: kindsOf(file.grids, rows, workers),
    waited: sum(waits, (bar) => bar.end - bar.begin) / workers,
    lost: sum(file.tracks, (track) => track.lost),
    end: Math.max(0, ...rows.map((row) => row.bars.at(-1).end)),
  };
}
