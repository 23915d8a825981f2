// Live changes of what a page is about: the newest on top, with a pause, and a mark where some were missed.
// One connection while the tab is visible; it goes on behind what it had looked at, through any restart.

import { make, timeText } from "./making.js";

const MOST = 200;
const AGAIN_MS = [1000, 2000, 5000, 15000, 30000];

/** Shows changes in a section that has a button, a status and a list, and says what to ask for. */
export function start(section) {
  const [button, status, list] = ["button", "[role=status]", "ol"].map((name) => section.querySelector(name));
  const waiting = [];
  let last = section.dataset.after;
  let source = null;
  let again = null;
  let failed = 0;
  let count = 0;
  let isPaused = false;
  let state = "Connecting.";

  function tell() {
    const changes = (number) => `${number} ${number === 1 ? "change" : "changes"}`;
    status.textContent = isPaused ? `Paused; ${changes(waiting.length)} waiting.` : `${state} ${changes(count)}.`;
  }

  function show(item) {
    list.prepend(item);
    while (list.children.length > MOST) list.lastElementChild.remove();
  }

  function take(item) {
    if (isPaused) waiting.push(item);
    else show(item);
    if (waiting.length > MOST) waiting.shift();
    count += item.matches(".missed") ? 0 : 1;
    tell();
  }

  function close() {
    clearTimeout(again);
    source?.close();
    source = null;
  }

  function open() {
    close();
    const address = new URL(section.dataset.feed, location.href);
    if (last) address.searchParams.set("after", last);
    source = new EventSource(address);
    source.addEventListener("open", () => {
      [failed, state] = [0, "Live."];
      tell();
    });
    source.addEventListener("change", (event) => {
      last = event.lastEventId;
      take(changed(JSON.parse(event.data)));
    });
    source.addEventListener("beat", (event) => {
      last = event.lastEventId;
    });
    source.addEventListener("gap", (event) => {
      last = event.lastEventId;
      take(missed(JSON.parse(event.data)));
    });
    source.addEventListener("error", () => {
      state = "Not connected; trying again.";
      tell();
      if (source.readyState === EventSource.CLOSED) tryAgain(source, address);
    });
  }

  /** Later, unless whoever asks is not known any more: then it would be refused for ever. */
  async function tryAgain(closed, address) {
    const isRefused = await isUnknown(address);
    if (source !== closed) return;
    if (isRefused) {
      status.replaceChildren("You are logged out. ", make("a", { href: location.href }, "Log in again"));
    } else {
      again = setTimeout(open, AGAIN_MS[Math.min(failed++, AGAIN_MS.length - 1)]);
    }
  }

  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Go on" : "Pause";
    for (const item of isPaused ? [] : waiting.splice(0)) show(item);
    tell();
  });
  document.addEventListener("visibilitychange", () => {
    if (!section.isConnected) return;
    if (document.hidden) close();
    else open();
  });
  section.hidden = false;
  tell();
  if (!document.hidden) open();
  return close;
}

async function isUnknown(address) {
  try {
    return (await fetch(address, { method: "HEAD" })).status === 401;
  } catch {
    return false;
  }
}

function missed(gap) {
  const reload = make("a", { href: location.href }, "Load the page again");
  return make("li", { class: "missed" }, make("strong", {}, "Missed:"), ` ${gap.detail} `, reload);
}

function changed(change) {
  const by = change.record.updater ?? change.record.client_id ?? change.record.actor;
  const event = make("a", { href: `/event?${new URLSearchParams({ event: change.position })}` }, timeText(change.time));
  return make("li", {}, event, by ? ` by ${by}` : "", ` `, make("span", { class: "soft" }, change.urn), details(change));
}

function details({ scope, record }) {
  const list = make("ul", { class: "facts" });
  if (record.changes === undefined) {
    const said = record.event_payload?.message;
    list.append(make("li", {}, record.event_type ?? "changed", said ? `: ${said}` : ""));
    return list;
  }
  for (const [side, name, sign] of [["deletions", "del", "−"], ["additions", "ins", "+"]]) {
    const { properties, tags } = record.changes[side];
    for (const [key, value] of Object.entries(properties)) {
      const text = make("span", { class: "text" }, shortened(value));
      list.append(make("li", {}, `${scope} `, make(name, {}, `${sign} `, make("code", {}, key), " ", text)));
    }
    for (const tag of tags) list.append(make("li", {}, `${scope} `, make(name, {}, `${sign} tag ${tag}`)));
  }
  return list;
}

function shortened(text) {
  return text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
}
