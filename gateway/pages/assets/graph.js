// Lineage as a drawing above its table: nodes are links, and data can be asked for what is one level further.
// The layout is made in a worker, and drawn in pieces, so that the page answers meanwhile.

import { HEIGHT, WIDTH, canvas, drawnNode, drawnWay } from "./graph-drawing.js";

const MOST = 200;
const PIECE = 25;

/** Draws the lineage whose address a figure bears. */
export async function start(figure) {
  const [status, frame] = ["figcaption", ".drawing"].map((name) => figure.querySelector(name));
  const layout = layouts();
  const known = new Known(Number(figure.dataset.nodes));
  figure.hidden = false;
  status.textContent = "Drawing.";

  async function load(address) {
    const answer = await fetch(address, { redirect: "manual" }).catch(() => null);
    if (answer === null || !answer.ok) return false;
    known.add(await answer.json());
    return true;
  }

  async function show(focused) {
    const start = performance.now();
    const nodes = known.nodes.slice(0, MOST);
    const ways = known.waysBetween(nodes);
    const apart = whatTellsApart(nodes);
    const made = await layout({ nodes: nodes.map(({ urn }) => urn), ways, width: WIDTH, height: HEIGHT });
    const svg = canvas(made, frame.clientWidth);
    frame.replaceChildren(svg);
    const node = (one, place) => drawnNode(
      one, made.places[place], { isRoot: place === 0, within: apart(one), expand: known.isOpen(one) ? null : expand },
    );
    await inPieces(ways, (way, place) => drawnWay(way, made.lines[place]), svg);
    await inPieces(nodes, node, svg);
    [...svg.querySelectorAll("a")].find((link) => link.dataset.urn === focused)?.focus();
    performance.measure("lineage drawn", { start });
    status.textContent = known.told(nodes.length);
  }

  async function expand({ urn, more }) {
    status.textContent = "Loading.";
    if (await load(more)) {
      known.open(more);
      await show(urn);
    } else status.textContent = "What is further is not available now; try again.";
  }

  if (await load(figure.dataset.graph)) {
    known.open(known.nodes[0].more);
    await show();
  } else status.textContent = "The drawing is not available now; the table has the same.";
}

/** What was loaded of a lineage, in the order in which it came: the nearest first. */
class Known {
  #nodes = new Map();
  #ways = new Map();
  #opened = new Set();
  #partial = new Set();
  #isWithheld = false;
  #inTable;

  /** Begins with nothing; the table below has so many nodes. */
  constructor(inTable) {
    this.#inTable = inTable;
  }

  get nodes() {
    return [...this.#nodes.values()];
  }

  add({ nodes, ways, partial, withheld }) {
    for (const node of nodes) if (!this.#nodes.has(node.urn)) this.#nodes.set(node.urn, node);
    for (const way of ways) this.#ways.set(`${way.from} ${way.to} ${way.access}`, way);
    if (partial) this.#partial.add(partial);
    this.#isWithheld ||= withheld;
  }

  open(address) {
    this.#opened.add(address);
  }

  /** Whether there is nothing to ask for: the node is a program, or was asked for. */
  isOpen({ more }) {
    return more === null || this.#opened.has(more);
  }

  waysBetween(nodes) {
    const drawn = new Set(nodes.map(({ urn }) => urn));
    return [...this.#ways.values()].filter(({ from, to }) => drawn.has(from) && drawn.has(to));
  }

  told(drawn) {
    const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
    const rest = this.#nodes.size - drawn;
    const isLess = rest === 0 && drawn < this.#inTable;
    return [
      isLess ? `${drawn} of the table's ${count(this.#inTable, "node")} drawn.` : `${count(drawn, "node")} drawn.`,
      isLess ? "A + shows what is next to its node." : "",
      rest > 0 ? `${rest} more ${rest === 1 ? "is" : "are"} not drawn; begin at a node nearer to them.` : "",
      ...[...this.#partial].map((why) => `Not all of it: ${why}`),
      this.#isWithheld ? "Something that you may not see is left out." : "",
    ].filter(Boolean).join(" ");
  }
}

/** A function that gives, of a node whose kind and name others have too, the parts of its URN in which they differ. */
function whatTellsApart(nodes) {
  const alike = Map.groupBy(nodes, ({ kind, name }) => `${kind} ${name}`);
  return ({ kind, name, within }) => {
    const others = alike.get(`${kind} ${name}`);
    const isSame = (part, place) => others.every((other) => other.within[place] === part);
    const differing = within.filter((part, place) => !isSame(part, place));
    return (differing.length ? differing : others.length > 1 ? within : []).join("/");
  };
}

/** A function that lays graphs out in a worker, one at a time; gives places and lines. */
function layouts() {
  const worker = new Worker(new URL("./graph-layout.js", import.meta.url));
  return (graph) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = reject;
      worker.postMessage(graph);
    });
}

/** Adds what is drawn of some items to a parent, a few at a time. */
async function inPieces(items, drawn, parent) {
  for (let begin = 0; begin < items.length; begin += PIECE) {
    parent.append(...items.slice(begin, begin + PIECE).map((item, place) => drawn(item, begin + place)));
    await new Promise((resolve) => setTimeout(resolve));
  }
}
