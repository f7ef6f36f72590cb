(() => {
  "use strict";
  const WORDS_SHOWN = 20, ROWS_FIRST = 30, RESULTS_SHOWN = 10, LONGEST_OVERALL = 3;
  const CUT = { class: "cut", x: "95%", width: "1.5%" };
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const topics = data.topics, list = document.querySelector(".topic-list");
  const placeOf = new Map(topics.map((topic, place) => [topic.n, place]));
  const panel = byId("panel"), slider = byId("relevance"), query = byId("query"), results = byId("results");
  const rows = all(".topic", list), rowOf = new Map(rows.map((row) => [Number(row.dataset.topic), row]));
  let chosen = null, marked = null, isOpen = topics.length <= ROWS_FIRST, order = topics.map((topic) => topic.n);

  // Elements: text is always text, and SVG has a namespace of its own.
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    made.append(...children);
    return made;
  }
  function shape(name, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    made.append(...children);
    return made;
  }
  function percent(share) {
    const points = 100 * share, digits = points >= 9.95 ? 0 : points >= 0.995 ? 1 : 2;
    return points > 0 && points < 0.005 ? "<\u00a00.01\u00a0%" : points.toFixed(digits) + " %";
  }
  const signed = (value) => (value < 0 ? "\u2212" : "") + Math.abs(value).toFixed(2);
  const wide = (part) => (100 * Math.min(1, part)).toFixed(1) + "%";

  // Words: weight log phi + (1 - weight) log(phi / p), Sievert and Shirley (2014).
  function ranked(topic, weight) {
    const score = topic.w.map((word, i) =>
      Math.log(Math.max(topic.p[i], 1e-12)) - (1 - weight) * Math.log(Math.max(data.frequencies[word], 1e-12)));
    return topic.w.map((_, i) => i).sort((i, j) => score[j] - score[i] || i - j).slice(0, WORDS_SHOWN);
  }
  function wordRow(topic, i, scale) {
    const share = topic.s === null ? 1 : topic.s, word = topic.w[i], frequency = data.frequencies[word];
    const bar = (kind, part) => shape("rect", { class: kind, width: wide(part / scale), height: "100%" });
    const bars = shape("svg", { "aria-hidden": "true" });
    if (topic.s !== null) bars.append(bar("overall", frequency));
    if (topic.s !== null && frequency > scale) bars.append(shape("rect", { ...CUT, height: "100%" }));
    bars.append(bar("mine", share * topic.p[i]));
    let title = percent(topic.p[i]) + " of the topic";
    if (topic.h && topic.h[i] > topic.l[i]) {
      const ends = { x1: wide(share * topic.l[i] / scale), x2: wide(share * topic.h[i] / scale) };
      bars.append(shape("line", { ...ends, y1: "50%", y2: "50%" }));
      title += " (" + percent(topic.l[i]) + " to " + percent(topic.h[i]) + ")";
    }
    title += ", " + percent(frequency) + " of all topics together";
    const row = element("li", { title }, element("bdi", {}, data.words[word]), bars);
    row.append(element("span", {}, percent(topic.p[i])));
    row.classList.toggle("match", word === marked);
    row.dataset.word = word;
    return row;
  }
  function showWords() {
    const topic = topics[placeOf.get(chosen)], weight = Number(slider.value), first = ranked(topic, weight);
    const share = topic.s === null ? 1 : topic.s, ends = topic.h || topic.p;
    const mine = Math.max(...first.map((i) => share * Math.max(ends[i], topic.p[i])), 1e-12);
    const overall = topic.s === null ? 0 : Math.max(...first.map((i) => data.frequencies[topic.w[i]]));
    // words that are common everywhere would make the bars of a small topic invisible: theirs are cut
    const scale = Math.max(mine, Math.min(overall, LONGEST_OVERALL * mine));
    byId("weight").textContent = String(weight);
    byId("panel-words").replaceChildren(...first.map((i) => wordRow(topic, i, scale)));
  }

  // Documents
  function topicLink(number, share) {
    const place = placeOf.get(number), name = "Topic " + number + " ";
    const words = place === undefined ? "" : data.words[topics[place].w[0]] || "";
    const children = [element("b", {}, String(number)), " ", element("bdi", {}, words), " " + percent(share)];
    if (place === undefined) return element("span", {}, ...children);
    return element("a", { href: "#topic-" + number, "data-topic": number, title: name + words }, ...children);
  }
  function entry(place, share) {
    const [title, id, url, date, opening, parts] = data.documents[place], name = element("bdi", {}, title);
    const head = element("h4", {});
    head.append(url ? element("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, name) : name);
    const facts = [id && "\u2068" + id + "\u2069", date, share === undefined ? "" : percent(share) + " of its words"];
    const links = element("ul", { class: "chips", "aria-label": "Topics of the document" });
    for (let i = 0; i < parts.length; i += 2) {
      const isNew = share === undefined || parts[i] !== chosen;
      if (isNew) links.append(element("li", {}, topicLink(parts[i], parts[i + 1])));
    }
    const line = element("p", { class: "facts" }, facts.filter(Boolean).join(" · "));
    return element("li", {}, head, line, element("p", { class: "opening" }, element("bdi", {}, opening)), links);
  }
  function showDocuments(topic) {
    const none = element("li", { class: "note" }, "No sample document has a tenth of its words from this topic.");
    const entries = topic.d.map(([place, share]) => entry(place, share));
    byId("panel-documents").replaceChildren(...(entries.length ? entries : [none]));
  }

  // Time
  function showTime(topic) {
    const time = data.timeline, block = byId("panel-time");
    block.hidden = !time;
    if (!time) return;
    const svg = block.querySelector("svg"), step = 100 / time.labels.length, most = Math.max(...topic.t, 1e-12);
    const bars = topic.t.flatMap((share, i) => {
      if (share === null) return [];
      const title = time.labels[i] + ": " + percent(share) + ", " + time.documents[i] + " documents";
      const tall = Math.max(1, 100 * share / most), part = (figure) => figure.toFixed(2) + "%";
      const place = { x: part(i * step), width: part(0.86 * step), y: part(100 - tall), height: part(tall) };
      return [shape("rect", place, shape("title", {}, title))];
    });
    svg.replaceChildren(...bars);
    const peak = topic.t.indexOf(most), [left, right] = block.querySelectorAll(".ends span");
    const said = peak < 0 ? "" : "; most in " + time.labels[peak] + ", " + percent(most);
    block.querySelector("h3").textContent = "Share by " + time.unit + said;
    left.textContent = time.labels[0];
    right.textContent = time.labels.at(-1);
    const range = " from " + left.textContent + " to " + right.textContent;
    svg.setAttribute("aria-label", "Share by " + time.unit + range + said);
  }

  // The topic that is chosen
  function select(number) {
    const topic = topics[placeOf.get(number)];
    chosen = number;
    const isChosen = (part) => Number(part.dataset.topic) === number;
    all(".spot, .topic").forEach((part) => part.classList.toggle("on", isChosen(part)));
    all(".pick, .spot").forEach((part) => {
      const isCurrent = isChosen(part);
      part.setAttribute("tabindex", isCurrent ? "0" : "-1");
      isCurrent ? part.setAttribute("aria-current", "true") : part.removeAttribute("aria-current");
    });
    raise();
    // the map has fewer topics than the list, and can be reached by tab all the same
    if (!all(".spot.on").length) all(".map").forEach((map) => map.querySelector(".spot").setAttribute("tabindex", "0"));
    byId("panel-title").textContent = "Topic " + number;
    const facts = [];
    if (topic.s !== null) facts.push(percent(topic.s) + " of all words");
    if (topic.c !== null) facts.push("coherence (NPMI) " + signed(topic.c));
    byId("panel-facts").textContent = facts.join(" · ");
    showWords();
    showTime(topic);
    showDocuments(topic);
    panel.scrollTop = 0;
    refresh();
  }
  // later in an SVG is on top; what is moved loses the focus
  function raise() {
    const focused = document.activeElement;
    all(".spot.on").forEach((spot) => spot.parentNode.lastElementChild === spot || spot.parentNode.append(spot));
    if (focused !== document.activeElement && focused.matches(".spot")) focused.focus({ preventScroll: true });
  }
  function go(number) {
    select(number);
    location.hash = "topic-" + number;
  }
  function reveal() {
    const top = panel.getBoundingClientRect().top;
    if (top < 0 || top > 0.6 * innerHeight) panel.scrollIntoView({ block: "start" });
  }
  function fromAddress() {
    const number = Number((/^#topic-(\d+)$/.exec(location.hash) || [])[1] ?? NaN);
    if (!placeOf.has(number)) return false;
    if (number !== chosen) select(number);
    return true;
  }
  function refresh() {
    const isListed = (number, i) => isOpen || i < ROWS_FIRST || number === chosen;
    order.forEach((number, i) => rowOf.get(number).classList.toggle("away", !isListed(number, i)));
    byId("all").hidden = isOpen;
  }
  function step(by) {
    go(order[(order.indexOf(chosen) + by + order.length) % order.length]);
  }
  const orders = {
    share: (a, b) => placeOf.get(a) - placeOf.get(b),
    npmi: (a, b) => (topics[placeOf.get(b)].c ?? -2) - (topics[placeOf.get(a)].c ?? -2) || orders.share(a, b),
    number: (a, b) => a - b,
  };
  function sort(by) {
    order.sort(orders[by]);
    list.append(...order.map((number) => rowOf.get(number)));
    refresh();
  }

  // Search
  let words = null, texts = null;
  function foundWords(wanted) {
    const rank = (i) => (words[i] === wanted ? 0 : words[i].startsWith(wanted) ? 1 : 2);
    words = words || data.words.map((word) => word.toLowerCase());
    return words.flatMap((word, i) => (word.includes(wanted) ? [i] : []))
      .sort((i, j) => rank(i) - rank(j) || data.frequencies[j] - data.frequencies[i] || i - j);
  }
  function foundDocuments(wanted) {
    texts = texts || data.documents.map(([title, id, , , opening]) => [title, id, opening].join("\n").toLowerCase());
    const terms = wanted.split(/\s+/);
    return texts.flatMap((text, i) => (terms.every((term) => text.includes(term)) ? [i] : []));
  }
  function wordEntry(word) {
    const holders = topics.flatMap((topic) => {
      const i = topic.w.indexOf(word);
      return i < 0 ? [] : [[topic.n, topic.p[i]]];
    }).sort((a, b) => b[1] - a[1]).slice(0, 5);
    const links = element("ul", { class: "chips", "aria-label": "Topics with the word" });
    links.append(...holders.map(([number, share]) => {
      const link = topicLink(number, share);
      link.dataset.word = word;
      return element("li", {}, link);
    }));
    return element("li", {}, element("h4", {}, element("bdi", {}, data.words[word])), links);
  }
  function block(title, found, make) {
    if (!found.length) return [];
    const more = found.length > RESULTS_SHOWN ? ", the first " + RESULTS_SHOWN : "";
    const entries = element("ol", { class: "entries" }, ...found.slice(0, RESULTS_SHOWN).map((place) => make(place)));
    return [element("div", {}, element("h3", {}, title + " (" + found.length + more + ")"), entries)];
  }
  function search() {
    const wanted = query.value.trim().toLowerCase();
    const found = wanted ? foundWords(wanted) : [], documents = wanted ? foundDocuments(wanted) : [];
    const blocks = [...block("Words", found, wordEntry), ...block("Documents", documents, (place) => entry(place))];
    results.replaceChildren(...blocks);
    results.hidden = !found.length && !documents.length;
    const count = (n, name) => n + " " + name + (n === 1 ? "" : "s");
    byId("found").textContent = !wanted ? "" : results.hidden ? "No word of the topics and no sample document matches."
      : count(found.length, "word") + ", " + count(documents.length, "document");
  }
  function closeSearch() {
    query.value = "";
    search();
  }

  // What a person does
  document.addEventListener("click", (event) => {
    const part = event.target.closest("a[data-topic], .topic");
    if (!part || event.ctrlKey || event.metaKey || event.shiftKey || String(getSelection()) !== "") return;
    if (part.matches(".topic") && event.target.closest("a, summary")) return;
    event.preventDefault();
    marked = part.dataset.word === undefined ? null : Number(part.dataset.word);
    if (results.contains(part)) closeSearch();
    go(Number(part.dataset.topic));
    reveal();
  });
  const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && query.value) closeSearch();
    const part = event.target.closest(".pick, .spot");
    const isAway = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
    if (!part || isAway || !(event.key in STEPS || event.key === "Home" || event.key === "End")) return;
    event.preventDefault();
    const isSpot = part.matches(".spot"), inside = isSpot ? part.closest(".map") : list;
    const linkOf = (number) => inside.querySelector((isSpot ? ".spot" : ".pick") + '[data-topic="' + number + '"]');
    const reached = order.filter((number) => linkOf(number)?.getClientRects().length), last = reached.length - 1;
    const place = reached.indexOf(Number(part.dataset.topic)) + (STEPS[event.key] || 0);
    const next = event.key === "Home" ? 0 : event.key === "End" ? last : Math.min(Math.max(place, 0), last);
    go(reached[next]);
    linkOf(reached[next]).focus();
  });
  // a word under the pointer: the topics that have it are outlined on the map
  function outline(word) {
    const holds = (spot) => topics[placeOf.get(Number(spot.dataset.topic))].w.includes(word);
    all(".spot").forEach((spot) => spot.classList.toggle("holds", word !== null && holds(spot)));
  }
  byId("panel-words").addEventListener("mouseover", (event) => {
    const row = event.target.closest("li");
    outline(row ? Number(row.dataset.word) : null);
  });
  byId("panel-words").addEventListener("mouseleave", () => outline(null));
  slider.addEventListener("input", showWords);
  query.addEventListener("input", search);
  byId("order").addEventListener("change", (event) => sort(event.target.value));
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("all").addEventListener("click", () => {
    isOpen = true;
    refresh();
  });
  addEventListener("hashchange", fromAddress);

  // the address names a topic, not a place to scroll to
  rows.forEach((row) => row.removeAttribute("id"));
  [panel, byId("search"), byId("sorting")].forEach((part) => { part.hidden = false; });
  document.documentElement.classList.add("ready");
  if (!fromAddress()) select(order[0]);
})();
