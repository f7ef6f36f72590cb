(() => {
  "use strict";
  const FIRST = 12;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const cards = all(".topic");
  const field = document.getElementById("filter");
  const found = document.getElementById("found");
  const showAll = document.getElementById("all");
  const bar = document.getElementById("chosen");
  let isOpen = cards.length <= FIRST;
  let chosen = null;

  const wordsOf = (card) => card.dataset.words.split("\n");
  const cardOf = (topic) => document.getElementById("topic-" + topic);

  function mark(card, wanted) {
    const matches = wanted ? wordsOf(card).filter((word) => word.toLowerCase().startsWith(wanted)) : [];
    const rows = [...card.querySelectorAll("li")];
    rows.forEach((row) => row.classList.toggle("match", matches.includes(row.firstChild.textContent)));
    const shown = rows.map((row) => row.firstChild.textContent);
    const hidden = matches.filter((word) => !shown.includes(word));
    card.querySelectorAll(".also").forEach((line) => line.remove());
    if (hidden.length) {
      const line = document.createElement("p");
      line.className = "also";
      line.append("also: ");
      hidden.forEach((word, i) => {
        const isolated = document.createElement("bdi");
        isolated.textContent = word;
        line.append(i ? ", " : "", isolated);
      });
      card.append(line);
    }
    return matches.length > 0;
  }

  function refresh() {
    const wanted = field.value.trim().toLowerCase();
    let count = 0;
    cards.forEach((card, i) => {
      const isMatch = mark(card, wanted);
      const isShown = wanted ? isMatch : isOpen || i < FIRST || card.dataset.topic === chosen;
      card.classList.toggle("away", !isShown);
      count += isShown;
    });
    showAll.hidden = isOpen || wanted !== "";
    const among = " among its " + field.dataset.searched + " most probable.";
    found.textContent = !wanted ? "" : count ? count + " of " + cards.length + " topics" : "No topic has such a word" + among;
  }

  function choose(topic) {
    chosen = topic;
    all("[data-topic]").forEach((part) => part.classList.toggle("on", part.dataset.topic === topic));
    cards.forEach((card) => card.querySelector("button").setAttribute("aria-pressed", card.dataset.topic === topic));
    // later in an SVG is on top
    all(".spot.on").forEach((spot) => spot.parentNode.lastElementChild === spot || spot.parentNode.append(spot));
    bar.hidden = topic === null;
    if (topic !== null) {
      const card = cardOf(topic);
      const words = card ? wordsOf(card).slice(0, 3).join(", ") : "";
      bar.querySelector("span").textContent = "Topic " + topic + (words ? ": \u2068" + words + "\u2069" : "");
      bar.querySelector("a").setAttribute("href", "#topic-" + topic);
    }
    refresh();
  }

  function reveal(topic) {
    if (field.value) {
      field.value = "";
      refresh();
    }
    const card = cardOf(topic);
    if (card) card.scrollIntoView({ block: "center" });
  }

  function pick(part) {
    const topic = part.dataset.topic;
    choose(topic === chosen ? null : topic);
    if (chosen !== null && part.classList.contains("spot")) reveal(topic);
  }

  document.addEventListener("click", (event) => {
    const part = event.target.closest("[data-topic]");
    if (part && String(getSelection()) === "") pick(part);
    if (event.target.closest("#chosen a[data-to]")) reveal(chosen);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen !== null) choose(null);
    const spot = event.target.closest(".spot");
    if (spot && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      pick(spot);
    }
  });
  bar.querySelector("button").addEventListener("click", () => choose(null));
  showAll.addEventListener("click", () => {
    isOpen = true;
    refresh();
  });
  field.addEventListener("input", refresh);
  document.documentElement.classList.add("ready");
  refresh();
})();
