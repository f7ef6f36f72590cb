(() => {
  "use strict";
  document.querySelectorAll(".frame").forEach((frame) => {
    frame.addEventListener("click", () => {
      const isLarge = frame.classList.toggle("large");
      frame.setAttribute("aria-pressed", String(isLarge));
    });
  });
  // A link to a claim, or a printed page, may need what is folded away.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
  document.documentElement.classList.add("ready");
})();
