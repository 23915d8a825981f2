// What a drawing of lineage is made of: a canvas, nodes that are links, lines between them. Colours are the
// stylesheet's; how something was accessed is also in the form of its line.

import { draw } from "./making.js";

export const [WIDTH, HEIGHT] = [190, 46];
const [LETTERS, SMALL_LETTERS, BESIDE_BUTTON] = [24, 28, 22];
const SMALLEST = 0.8;
const BUTTON = 24;
const MARGIN = 4;
/** What takes a pointer has 24 px in the smallest drawing too (WCAG 2.2, 2.5.8). */
const TARGET = BUTTON + 2 * MARGIN;

/** An empty drawing of a layout: of its size, or a little smaller where that fits the room of a frame that scrolls. */
export function canvas({ width, height }, room) {
  const tip = draw("path", { d: "M0,0 L8,4 L0,8 Z", class: "tip" });
  const arrow = draw("marker", { id: "arrow", markerWidth: 8, markerHeight: 8, refX: 8, refY: 4, orient: "auto" }, tip);
  const scale = Math.max(SMALLEST, Math.min(1, room / Math.ceil(width)));
  const size = { width: Math.floor(Math.ceil(width) * scale), height: Math.ceil(height * scale) };
  const box = `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`;
  return draw("svg", { ...size, viewBox: box, class: "graph", role: "group", "aria-label": "Lineage" }, arrow);
}

/**
 * A node: a link to its page, of a program to its runs, and, where there may be more, a button that asks for it.
 * What it is within is written where other nodes have its name.
 */
export function drawnNode(node, [x, y], { isRoot, within, expand }) {
  const { urn, kind, name, to } = node;
  const place = within ? `${kind} in ${within}` : kind;
  const most = expand === null ? SMALL_LETTERS : BESIDE_BUTTON;
  const link = draw(
    "a", { href: to, "data-urn": urn },
    draw("title", {}, urn), draw("rect", { width: WIDTH, height: HEIGHT, rx: 5 }),
    draw("text", { x: 10, y: 18, class: "kind" }, shortened(isRoot ? `${place}, begun here` : place, most)),
    draw("text", { x: 10, y: 38 }, shortened(name, LETTERS)),
  );
  const at = `translate(${Math.round(x - WIDTH / 2)} ${Math.round(y - HEIGHT / 2)})`;
  const group = draw("g", { transform: at, class: isRoot ? "root" : kind }, link);
  if (expand !== null) group.append(expander(node, expand));
  return group;
}

/** A text that fits: of a long one its beginning and its end, in which names differ most. */
function shortened(text, most) {
  const half = Math.floor((most - 1) / 2);
  return text.length > most ? `${text.slice(0, most - 1 - half)}…${text.slice(-half)}` : text;
}

function expander(node, expand) {
  const button = draw(
    "g",
    { class: "expand", role: "button", tabindex: 0, transform: `translate(${WIDTH - TARGET} 0)` },
    draw("title", {}, `Show what is next to ${node.urn}`),
    draw("rect", { width: TARGET, height: TARGET, class: "target" }),
    draw("rect", { x: MARGIN, y: MARGIN, width: BUTTON, height: BUTTON, rx: 3 }),
    draw("text", { x: TARGET / 2, y: TARGET / 2 + 5, "text-anchor": "middle" }, "+"),
  );
  button.addEventListener("click", () => expand(node));
  button.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    expand(node);
  });
  return button;
}

/** A line from what was read to who read it, or from who wrote to what was written. */
export function drawnWay({ from, to, access }, points) {
  const d = points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  const arrow = access === "unknown" ? {} : { "marker-end": "url(#arrow)" };
  return draw("path", { d, class: `way ${access}`, ...arrow }, draw("title", {}, `${from} → ${to}: ${access}`));
}
