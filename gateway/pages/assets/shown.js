// Shows parts of another page of this server in the place of those of the page that is there.
// What was asked for last counts: whoever asks gives a signal that ends an earlier question. The focus stays with a part.

/**
 * Replaces the elements of some ids by those of a page.
 * Gives false where the page does not have them (it was refused, or a login is needed), so nothing was replaced.
 */
export async function showParts(address, ids, signal) {
  const answer = await fetch(address, { signal, redirect: "manual", headers: { Accept: "text/html" } });
  if (answer.type === "opaqueredirect") return false;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = ids.map((id) => page.getElementById(id));
  if (found.includes(null)) return false;
  for (const part of found) {
    const before = document.getElementById(part.id);
    const hadFocus = before.contains(document.activeElement);
    before.replaceWith(document.adoptNode(part));
    if (hadFocus) {
      part.tabIndex = -1;
      part.focus({ preventScroll: true });
    }
    globalThis.htmx?.process(part);
    part.dispatchEvent(new CustomEvent("metajournal:shown", { bubbles: true }));
  }
  document.title = page.title;
  return true;
}

/** A question that is asked one at a time: a new one ends the one before, whose answer is not shown. */
export function latest(ask) {
  let controller = new AbortController();
  return async (...args) => {
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    try {
      return await ask(signal, ...args);
    } catch (error) {
      if (signal.aborted) return undefined;
      throw error;
    }
  };
}
