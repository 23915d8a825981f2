// The entities that were opened last in this browser: noted on their pages, listed on the first page, forgotten at
// logout. They never leave the browser.

import { make } from "./making.js";

const KEY = "metajournal.opened";
const MOST = 10;

/** Notes the entity of a page, lists what was noted, or forgets it, as its element says. */
export function start(element) {
  if (element.matches("form")) element.addEventListener("submit", () => localStorage.removeItem(KEY));
  else if (element.dataset.urn !== undefined) note(element.dataset);
  else list(element);
}

function note({ who, urn, address }) {
  const others = known(who).filter((one) => one.urn !== urn);
  const opened = [{ urn, address }, ...others].slice(0, MOST);
  try {
    localStorage.setItem(KEY, JSON.stringify({ who, opened }));
  } catch {
    // A browser that keeps nothing lists nothing.
  }
}

function list(section) {
  const opened = known(section.dataset.list);
  for (const { urn, address } of opened) {
    section.querySelector("ul").append(make("li", {}, make("a", { href: address }, urn)));
  }
  section.hidden = opened.length === 0;
}

/** What somebody has opened; nothing where somebody else was here last, or the text is not one of ours. */
function known(who) {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    return kept.who === who ? kept.opened.filter(({ urn, address }) => urn && /^\/entity[/?]/.test(address)) : [];
  } catch {
    return [];
  }
}
