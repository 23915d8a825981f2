// A slider over the changes of an entity: each of its places shows the state that a change made, the last one the
// newest. The address says which one is shown, so it can be sent to others, and the way back works.

import { timeText, visible } from "./making.js";
import { latest, showParts } from "./shown.js";

const PARTS = ["state", "copies"];

/** Fills the slider with the points at which the entity changed, and shows a state when it is moved. */
export async function start(section) {
  const [slider, output] = ["input", "output"].map((name) => section.querySelector(name));
  const answer = await fetch(section.dataset.states, { redirect: "manual" });
  if (!answer.ok) return;
  const { states, more } = await answer.json();
  if (!states.length) return;
  const show = latest((signal, address) => showParts(address, PARTS, signal));

  function told(place) {
    if (place === states.length) return "The newest state";
    const { time, actor, deleted } = states[place];
    const what = `Change ${place + 1} of ${states.length}${more ? " (older ones are in the history)" : ""}`;
    return visible(`${what}, ${timeText(time)}${actor ? ` by ${actor}` : ""}${deleted ? ", deleted" : ""}`);
  }

  function tell() {
    output.textContent = told(Number(slider.value));
    slider.setAttribute("aria-valuetext", output.textContent);
  }

  function address() {
    const wanted = new URL(location.href);
    for (const name of ["as_at", "as_of", "done"]) wanted.searchParams.delete(name);
    const state = states[slider.value];
    if (state !== undefined) wanted.searchParams.set("as_at", state.at);
    return wanted;
  }

  function place() {
    const at = new URL(location.href).searchParams.get("as_at");
    const found = states.findIndex((state) => state.at === at);
    slider.value = found === -1 ? states.length : found;
    tell();
  }

  async function move(wanted) {
    const is_shown = await show(wanted);
    if (is_shown === false) location.assign(wanted);
    return is_shown;
  }

  slider.max = states.length;
  place();
  slider.addEventListener("input", tell);
  slider.addEventListener("change", async () => {
    const wanted = address();
    if (await move(wanted)) history.pushState(null, "", wanted);
  });
  addEventListener("popstate", () => {
    place();
    move(location.href);
  });
  section.hidden = false;
}
