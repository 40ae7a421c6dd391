"use strict";
const one = (selector) => document.querySelector(selector);
const filter = one("#filter"), search = one("#search"), verdict = one("#verdict"), kind = one("#kind"), shown = one("#shown");
let rows;
function apply() {
  rows ??= [...document.querySelectorAll("#objects [data-verdict]")].map((row) => [row, row.textContent.toLowerCase()]);
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  for (const [row, text] of rows) {
    const hit = (!verdict.value || row.dataset.verdict === verdict.value) && (!kind.value || row.dataset.kind === kind.value) && words.every((w) => text.includes(w));
    row.hidden = !hit;
    n += hit;
  }
  shown.textContent = n + " of " + rows.length + " objects are shown";
}
if (filter) {
  filter.hidden = false;
  let later;
  search.addEventListener("input", () => { clearTimeout(later); later = setTimeout(apply, 100); });
  verdict.addEventListener("change", apply);
  kind.addEventListener("change", apply);
  filter.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
}
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = button.previousElementSibling.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "Selected: press Ctrl-C";
    }
  });
}
function unfold() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}
addEventListener("hashchange", unfold);
unfold();
