// A layered layout of a graph, from left to right.

const GAP = {
  rank: 46,
  node: 18
};
const PASSING_HEIGHT = 10;  // of an edge that passes a rank
const SWEEPS = 6;           // sweeps that order the ranks

// Returns the rank of each node: the edges on the longest path to it. Edges lead to later nodes of the list.
function ranksOf(nodes, edges) {
  const ranks = nodes.map(() => 0);
  for (let to = 0; to < nodes.length; ++to)
    for (const edge of edges)
      if (edge.to === to) ranks[to] = Math.max(ranks[to], ranks[edge.from] + 1);
  return ranks;
}

// Cuts each edge into links between neighbouring ranks. A rank that an edge passes gets a point of it.
function linksOf(nodes, edges, ranks) {
  const points = nodes.map((node, i) => ({node, rank: ranks[i], width: node.width, height: node.height}));
  const links = [];
  edges.forEach((edge) => {
    edge.points = [points[edge.from]];
    for (let rank = ranks[edge.from] + 1; rank < ranks[edge.to]; ++rank) {
      const point = {rank, width: 0, height: PASSING_HEIGHT};
      points.push(point);
      edge.points.push(point);
    }
    edge.points.push(points[edge.to]);
    for (let i = 1; i < edge.points.length; ++i) links.push([edge.points[i - 1], edge.points[i]]);
  });
  return {points, links};
}

// Gives each point its place in its rank: near the mean place of its neighbours.
function orderRanks(columns, links) {
  columns.forEach((column) => column.forEach((point, i) => (point.order = i)));
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const [here, there] = sweep % 2 ? [0, 1] : [1, 0];
    for (const column of columns) {
      for (const point of column) {
        const others = links.filter((link) => link[here] === point).map((link) => link[there].order);
        point.wish = others.length ? others.reduce((a, b) => a + b) / others.length : point.order;
      }
      column.sort((a, b) => a.wish - b.wish).forEach((point, i) => (point.order = i));
    }
  }
}

// Places nodes with widths and heights. Sets x and y of each node, and the points {x, y, width} of each edge.
// Returns the size of the drawing.
export function layOut(nodes, edges) {
  const ranks = ranksOf(nodes, edges);
  const {points, links} = linksOf(nodes, edges, ranks);
  const columns = Array.from({length: Math.max(0, ...ranks) + 1}, () => []);
  for (const point of points) columns[point.rank].push(point);
  orderRanks(columns, links);
  const heights =
      columns.map((column) => column.reduce((sum, {height}) => sum + height + GAP.node, -GAP.node));
  const height = Math.max(0, ...heights);
  let x = 0;
  columns.forEach((column, rank) => {
    const width = Math.max(...column.map((point) => point.width));
    let y = (height - heights[rank]) / 2;
    for (const point of column) {
      if (!point.node) point.width = width;
      point.x = x + (width - point.width) / 2;
      point.y = y;
      y += point.height + GAP.node;
      if (point.node) Object.assign(point.node, {x: point.x, y: point.y});
    }
    x += width + GAP.rank;
  });
  return {width: Math.max(0, x - GAP.rank), height};
}

// Returns the path of an edge in the form of SVG: curves from the right of each point to the left of the
// next.
export function pathOf({points}) {
  const middle = (point) => point.y + point.height / 2;
  let path = "";
  for (let i = 1; i < points.length; ++i) {
    const [from, to] = [points[i - 1], points[i]];
    const [x0, y0, x1, y1] = [from.x + from.width, middle(from), to.x, middle(to)];
    const half = (x0 + x1) / 2;
    path += `${i === 1 ? "M" : "L"}${x0} ${y0}C${half} ${y0} ${half} ${y1} ${x1} ${y1}`;
  }
  return path;
}
