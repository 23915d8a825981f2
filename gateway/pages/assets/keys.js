// The keyboard: a way to the search field, through hits, and to the list of keys. Whoever types is left alone.

const FIELDS = "input, textarea, select, [contenteditable]";
const HITS = "[data-hits] > li > a, [data-hits] > li > :first-child a";

/** Listens to keys of a page, and shows the button that lists them. */
export function start(page) {
  const dialog = page.getElementById("keys");
  const button = page.getElementById("show-keys");
  button.hidden = false;
  button.addEventListener("click", () => dialog.showModal());
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  page.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    const act = dialog.open ? null : event.target.matches(FIELDS) ? inField(event) : outside(event, dialog);
    if (act === null) return;
    event.preventDefault();
    act();
  });
}

/** What a key does in a field: in one of search it leaves it, upwards or into the hits. */
function inField({ key, target }) {
  if (target.type !== "search") return null;
  if (key === "Escape") return () => target.blur();
  return key === "ArrowDown" ? step(1) : null;
}

function outside({ key }, dialog) {
  if (key === "/") return toSearch();
  if (key === "?") return () => dialog.showModal();
  if (key === "ArrowDown") return step(1);
  if (key === "ArrowUp") return step(-1);
  return null;
}

/** The page's own search field, else the one that every page has. */
function toSearch() {
  const field = document.getElementById("query") ?? document.getElementById("find");
  if (field === null) return null;
  return () => {
    field.focus();
    field.select();
  };
}

/** The hit behind or before the one that has the focus; none where the page has no hits, or no more. */
function step(by) {
  const hits = [...document.querySelectorAll(HITS)].filter((hit) => hit.checkVisibility());
  const place = hits.indexOf(document.activeElement);
  const next = place === -1 ? (by > 0 ? hits[0] : undefined) : hits[place + by];
  return next === undefined ? null : () => next.focus();
}
