// On this page and on every page that is opened from it.
document$.subscribe(() => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    const display = text.startsWith("\\[");
    katex.render(text.slice(2, -2), element, { displayMode: display, throwOnError: false, output: "htmlAndMathml" });
  }
  // What scrolls can be reached by keyboard, and the search box has a name.
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap")) wide.tabIndex = 0;
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
});
