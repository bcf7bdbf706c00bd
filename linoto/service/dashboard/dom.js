// Elements are made here and nowhere else: text stays text, so that no name can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element; attributes that begin with "on" are listeners. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Set text only where it differs, so that a selection and a screen reader are left in peace. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replace what is in a node, unless it is equal already. */
export function show(node, ...children) {
  const probe = document.createElement(node.tagName);
  probe.append(...children);
  if (probe.innerHTML !== node.innerHTML) node.replaceChildren(...probe.childNodes);
}

/** The part of a node marked data-name. */
export function part(node, name) {
  return node.querySelector(`[data-${name}]`);
}
