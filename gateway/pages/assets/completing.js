// Completions below a search field, by keyboard and mouse: a list box of the field, filled by htmx as one types.
// Source: ARIA Authoring Practices, combobox with a list.

let lists = 0;

/** Makes a field and the list behind it a combobox. */
export function start(field) {
  const list = field.nextElementSibling;
  list.id = `completions-${++lists}`;
  let active = null;

  function choose(option) {
    active?.setAttribute("aria-selected", "false");
    active = option;
    active?.setAttribute("aria-selected", "true");
    active?.scrollIntoView({ block: "nearest" });
    if (active) field.setAttribute("aria-activedescendant", active.id);
    else field.removeAttribute("aria-activedescendant");
  }

  function open(isOpen) {
    list.hidden = !isOpen;
    field.setAttribute("aria-expanded", String(isOpen));
    choose(null);
  }

  function take(option) {
    field.value = option.dataset.text;
    open(false);
    field.form.requestSubmit();
  }

  function act(key) {
    const options = [...list.children];
    const place = options.indexOf(active);
    if (key === "ArrowDown") return () => choose(options[place + 1] ?? options[0]);
    if (key === "ArrowUp") return () => choose(options[place - 1] ?? options.at(-1));
    if (key === "Escape") return () => open(false);
    return key === "Enter" && active !== null ? () => take(active) : null;
  }

  new MutationObserver(() => {
    [...list.children].forEach((option, place) => {
      option.id = `${list.id}-${place}`;
    });
    open(list.children.length > 0 && document.activeElement === field);
  }).observe(list, { childList: true });
  field.addEventListener("keydown", (event) => {
    const does = list.hidden || event.isComposing ? null : act(event.key);
    if (does === null) return;
    event.preventDefault();
    does();
  });
  field.addEventListener("blur", () => open(false));
  field.form.addEventListener("submit", () => open(false));
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const option = event.target.closest("[role=option]");
    if (option !== null) take(option);
  });
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-controls", list.id]]) {
    field.setAttribute(name, value);
  }
  open(false);
}
