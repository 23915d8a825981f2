// Makes elements of texts: whatever comes from the journal becomes text, never markup.
// Characters that are not seen, or that change how others are, stand as their numbers, as the server writes them.

const ODD = new RegExp(
  "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f" +
    "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e007f}]",
  "gu",
);

/** A text whose odd characters stand as their numbers: `⟨U+202E⟩`. */
export function visible(text) {
  return String(text).replace(ODD, (one) => `⟨U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** Milliseconds UTC as the pages write them; what no calendar has as a number. */
export function timeText(ms) {
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? `${ms} ms` : time.toISOString().replace("T", " ").replace("Z", " UTC");
}

/** An element with attributes and children; texts among these are made visible. */
export function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same of a drawing. */
export function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}
