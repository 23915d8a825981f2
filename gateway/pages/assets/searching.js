// Search without loading the page anew: as one types, and when a facet is chosen. The address says what is shown.
// While one types, one page of hits is asked for that holds nothing open on the server.

import { latest, showParts } from "./shown.js";

const PART = "results";
const WAIT_MS = 200;

/** Takes over the form of the search page, and the links of its results that lead to other searches. */
export function start(form) {
  const show = latest((signal, address) => showParts(address, [PART], signal));
  let timer = null;

  async function go(address, keep) {
    clearTimeout(timer);
    const is_shown = await show(address);
    if (is_shown === false) location.assign(address);
    if (is_shown) keep(address);
  }

  async function type() {
    const address = asked(form);
    const typing = new URL(address);
    typing.searchParams.set("typing", "1");
    if (await show(typing)) history.replaceState(null, "", address);
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(type, WAIT_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(asked(form), push);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest(`#${PART} a`);
    if (link === null || link.pathname !== location.pathname || isForAnotherTab(event)) return;
    event.preventDefault();
    fill(form, link.href);
    go(link.href, (address) => {
      push(address);
      document.querySelector("h1").scrollIntoView();
    });
  });
  addEventListener("popstate", () => {
    fill(form, location.href);
    go(location.href, () => {});
  });
}

function push(address) {
  if (String(address) !== location.href) history.pushState(null, "", address);
}

/** The search that a form asks for, without the fields that are empty. */
function asked(form) {
  const address = new URL(form.action);
  for (const [name, value] of new FormData(form)) if (value) address.searchParams.set(name, value);
  return address;
}

function fill(form, address) {
  const { searchParams } = new URL(address);
  for (const field of form.elements) if (field.name) field.value = searchParams.get(field.name) ?? "";
}

function isForAnotherTab(event) {
  return event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
}
