// Mends what the theme leaves to assistive technology: names of buttons, landmarks, scrolling by keyboard.
function mend() {
  // The accessible name must contain the visible label; the theme writes a second, different one.
  for (const button of document.querySelectorAll(".search-button__button, .theme-switch-button")) {
    if (button.innerText.trim()) button.removeAttribute("aria-label");
  }
  // The sidebar's title and search stand outside every landmark.
  document.querySelector("#pst-primary-sidebar")?.setAttribute("role", "region");
  document.querySelector("#pst-primary-sidebar")?.setAttribute("aria-label", "Contents of the book");
  // Entries of the bibliography: the builder writes a role that is withdrawn, inside a list that needs items.
  for (const entry of document.querySelectorAll("[role=doc-biblioentry]")) {
    entry.setAttribute("role", "listitem");
  }
  // What scrolls sideways must be reachable with the keyboard.
  for (const box of document.querySelectorAll(".pst-scrollable-table-container, div.math, pre")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
}
window.addEventListener("load", mend);
window.addEventListener("resize", mend);
