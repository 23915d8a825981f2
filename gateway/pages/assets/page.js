// Starts what a page has: each element that names a script by `data-part` is handed to it once.
// Every page works without this; what comes into a page later is started where `shown` says so. An element whose script
// has done what it does at its start is marked `data-started`.

import { start as startKeys } from "./keys.js";

const PARTS = new Set(["completing", "copying", "graph", "live", "opened", "recent", "searching", "states", "ticking"]);
const started = new WeakSet();

function startIn(root) {
  for (const element of root.querySelectorAll("[data-part]")) {
    const name = element.dataset.part;
    if (!PARTS.has(name) || started.has(element)) continue;
    started.add(element);
    import(`./${name}.js`).then((script) => script.start(element)).then(() => element.setAttribute("data-started", ""));
  }
}

startKeys(document);
startIn(document);
document.addEventListener("metajournal:shown", (event) => startIn(event.target));
