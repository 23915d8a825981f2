// Shows a part of a page anew every few seconds, while its tab is visible.

const EVERY_MS = 5000;

/** Replaces what is in an element by what its address answers, again and again. */
export function start(element) {
  const timer = setInterval(async () => {
    if (!element.isConnected) clearInterval(timer);
    else if (!document.hidden) await refresh(element);
  }, EVERY_MS);
}

async function refresh(element) {
  const answer = await fetch(element.dataset.from, { redirect: "manual" }).catch(() => null);
  if (answer === null || !answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = page.getElementById(element.id);
  if (found !== null) element.replaceChildren(...found.childNodes);
}
