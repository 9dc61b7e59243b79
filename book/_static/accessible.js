// Mends what the theme leaves to assistive technology and to narrow screens.

function nameThings() {
  // The accessible name must contain the visible label; the theme writes a second, different one.
  for (const button of document.querySelectorAll(".search-button__button, .theme-switch-button")) {
    if (button.innerText.trim()) button.removeAttribute("aria-label");
  }
  // The sidebar's title and search stand outside every landmark.
  const sidebar = document.querySelector("#pst-primary-sidebar");
  sidebar?.setAttribute("role", "region");
  sidebar?.setAttribute("aria-label", "Contents of the book");
  // Entries of the bibliography: the builder writes a role that is withdrawn, inside a list that needs items.
  for (const entry of document.querySelectorAll("[role=doc-biblioentry]")) {
    entry.setAttribute("role", "listitem");
  }
}

// What is too wide scrolls within itself, and what scrolls can be reached with the keyboard.
function fit() {
  for (const formula of document.querySelectorAll("p mjx-container, li mjx-container, dd mjx-container")) {
    const column = formula.closest("p, li, dd");
    formula.classList.toggle("wide", !formula.closest("table") && formula.scrollWidth > column.clientWidth);
  }
  for (const box of document.querySelectorAll(".pst-scrollable-table-container, .cell_output .output, div.math, pre")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
}

window.addEventListener("load", () => {
  nameThings();
  fit();
  window.MathJax?.startup?.promise.then(fit);
});
window.addEventListener("resize", fit);
