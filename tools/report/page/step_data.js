// The report's data in the forms that its sections take.

import {kindOf, kindsOf} from "./trace.js";

const NUMBERS_OF_BAR =
    6;  // of a bar: twice the grid and whether it waits, first task, tasks, gap, length, ring

// Returns the bars of a row, with times since the step's begin.
function decodeBars({loader, bars: numbers}) {
  const bars = [];
  let end = 0;
  for (let i = 0; i < numbers.length; i += NUMBERS_OF_BAR) {
    const begin = end + numbers[i + 3];
    end = begin + numbers[i + 4];
    bars.push({
      grid: numbers[i] >> 1,
      loader,
      waits: (numbers[i] & 1) === 1,
      first: numbers[i + 1],
      tasks: numbers[i + 2],
      begin,
      end,
      ring: numbers[i + 5]
    });
  }
  return bars;
}

// Returns a timeline of the report as a trace with rows of bars.
export function stepOf(timeline, names) {
  const rows = timeline.rows.map((row) => ({worker: row.worker, loader: row.loader, bars: decodeBars(row)}));
  return {
    ...timeline,
    grids: names,
    rows,
    kinds: kindsOf(names, rows, timeline.workers),
    end: Math.max(0, ...rows.map((row) => row.bars.at(-1).end)),
  };
}

// Finds the bars of tasks.
export class TaskIndex {
  // The bars of each grid's consumers, in order of their first tasks.
  constructor(step) {
    this.places = step.grids.map(() => []);
    step.rows.forEach(({loader, bars}, row) => {
      if (loader) return;
      bars.forEach(({grid, waits, first}, bar) => waits || this.places[grid].push({first, row, bar}));
    });
    for (const places of this.places) places.sort((a, b) => a.first - b.first);
  }

  // Returns the place of the bar that has a task, or null.
  find(grid, task) {
    const places = this.places[grid];
    let low = 0;
    let high = places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places[middle].first <= task)
        low = middle + 1;
      else
        high = middle;
    }
    return low ? places[low - 1] : null;
  }
}

// Returns {name, bytes, tasks, path, busy} of each operator. Grids of all layers that do the same are one
// operator.
export function operatorsOf(grids) {
  const operators = new Map();
  for (const row of grids) {
    const name = kindOf(row.grid);
    const sum = operators.get(name) ?? {name, bytes: 0, tasks: 0, path: 0, busy: row.busy.map(() => 0)};
    sum.bytes += row.bytes;
    sum.tasks += row.tasks;
    sum.path += row.path_us;
    row.busy.forEach((us, i) => (sum.busy[i] += us));
    operators.set(name, sum);
  }
  return [...operators.values()];
}
