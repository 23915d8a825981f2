// A button beside a text that copies it, as it is and not as it is shown.

import { make } from "./making.js";

/** Adds the button. */
export function start(element) {
  const button = make("button", { type: "button" }, "Copy");
  const status = make("span", { role: "status" });
  button.setAttribute("aria-label", `Copy ${element.textContent}`);
  button.addEventListener("click", async () => {
    status.textContent = (await copied(element.dataset.text)) ? "Copied." : "Selected; press Ctrl+C.";
    if (status.textContent !== "Copied.") getSelection().selectAllChildren(element);
  });
  element.after(make("p", { class: "copy" }, button, " ", status));
}

/** Whether the browser let the page copy: over plain HTTP it does so for this machine alone. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
