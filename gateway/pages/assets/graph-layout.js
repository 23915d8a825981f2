// Lays a graph out, in a worker of its own: nodes and ways in, their places out.

importScripts("./dagre-3.1.3.min.js");

addEventListener("message", ({ data: { nodes, ways, width, height } }) => {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 60, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const urn of nodes) graph.setNode(urn, { width, height });
  ways.forEach(({ from, to }, place) => graph.setEdge(from, to, {}, String(place)));
  dagre.layout(graph);
  postMessage({
    width: graph.graph().width ?? 0,
    height: graph.graph().height ?? 0,
    places: nodes.map((urn) => [graph.node(urn).x, graph.node(urn).y]),
    lines: ways.map(({ from, to }, place) => graph.edge(from, to, String(place)).points.map(({ x, y }) => [x, y])),
  });
});
