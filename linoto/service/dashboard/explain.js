// A short explanation at each word: a "?" that opens one box, for a mouse, the keyboard or a thumb.

import { el, say } from "./dom.js";
import { WORDS } from "./words.js";

const box = document.getElementById("explanation");
let opener = null;

/** Put a "?" after every word that is marked data-word, and all of them into the list of words. */
export function explainWords(root) {
  const list = Object.entries(WORDS).flatMap(([word, text]) => [el("dt", {}, word), el("dd", {}, text)]);
  root.querySelector("[data-words]").append(...list);
  for (const node of root.querySelectorAll("[data-word]")) {
    const word = node.dataset.word;
    const mark = el("button", { type: "button", class: "help", title: WORDS[word], "aria-label": `What does “${word}” mean?`, "data-explain": word }, "?");
    if (node.tagName === "LABEL") node.after(mark); // inside, it would be what the label belongs to
    else node.append(" ", mark);
  }
}

function open(button) {
  opener = button;
  say(box, `${button.dataset.explain}: ${WORDS[button.dataset.explain]}`);
  const { left, bottom } = button.getBoundingClientRect();
  const most = document.documentElement.clientWidth - box.offsetWidth - 8;
  box.style.left = `${scrollX + Math.max(8, Math.min(left, most))}px`;
  box.style.top = `${scrollY + bottom + 6}px`;
}

function close() {
  opener = null;
  say(box, ""); // an empty box is not shown
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-explain]");
  if (button && button !== opener) open(button);
  else if (!box.contains(target)) close();
});
document.addEventListener("keydown", ({ key }) => key === "Escape" && close());
