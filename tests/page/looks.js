// What is wrong with how a report looks at the width of this window, as a list of sentences. Runs in the page.
(() => {
  "use strict";
  const found = [];
  const wrong = (what, element) => {
    const text = (element?.getAttribute?.("aria-label") ?? element?.textContent ?? "").trim().slice(0, 60);
    found.push(element ? `${what}: ${element.tagName.toLowerCase()} "${text}"` : what);
  };
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const is_shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
  const box = (element) => element.getBoundingClientRect();
  const overlap = (a, b) => {
    const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    return width > 0.5 && height > 0.5;
  };
  const pairs = (elements, what) => elements.forEach((one, index) => {
    for (const other of elements.slice(index + 1)) {
      if (overlap(box(one), box(other))) wrong(`${what} "${other.textContent.trim().slice(0, 40)}" overlaps`, one);
    }
  });

  // Structure.
  if (!document.documentElement.lang) wrong("the page has no language");
  if (!document.title) wrong("the page has no title");
  const ids = all("[id]").map((element) => element.id);
  ids.filter((id, index) => ids.indexOf(id) !== index).forEach((id) => wrong(`the id ${id} is not unique`));
  for (const link of all("a[href^='#']")) {
    if (!document.getElementById(link.hash.slice(1))) wrong("the link leads nowhere", link);
  }
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1 || (own === 1 && level > 0)) wrong("the heading skips a level", heading);
    level = own;
  }
  if (all("h1").length !== 1 || all("main").length !== 1) wrong("the page has not one main and one first heading");
  const regions = all("[role=region]").map((region) => region.getAttribute("aria-label"));
  regions.filter((name, index) => !name || regions.indexOf(name) !== index)
    .forEach((name) => wrong(`the region "${name}" has no name of its own`));
  for (const element of all("button, a[href], summary, [tabindex], [role=application]")) {
    const name = element.getAttribute("aria-label") ?? element.textContent;
    if (!name.trim()) wrong("a control has no name", element);
    const is_labelled = element.matches("button, a[href], summary");
    if (is_labelled && !name.includes(element.textContent.trim())) wrong("a control is called otherwise than it says", element);
  }
  for (const svg of all("svg")) {
    const is_named = svg.getAttribute("role") === "img" && svg.getAttribute("aria-label");
    if (!is_named && svg.getAttribute("aria-hidden") !== "true") wrong("a drawing has no name", svg);
  }
  if (all("img").length > 0) wrong("there is an image");
  for (const header of all("th")) if (!header.scope) wrong("a header has no scope", header);
  for (const table of all("table")) {
    const counts = new Set([...table.rows].map((row) => row.cells.length));
    if (counts.size !== 1) wrong("rows differ in length", table);
  }
  for (const list of all("ul")) {
    if ([...list.children].some((child) => child.tagName !== "LI")) wrong("a list holds something else", list);
  }

  // Room: nothing is wider than the window but what scrolls.
  const page = document.scrollingElement;
  if (page.scrollWidth > innerWidth) wrong(`the page is ${page.scrollWidth} wide in a window of ${innerWidth}`);
  for (const element of all("main *")) {
    if (!is_shown(element) || element.closest(".wide table, svg")) continue;
    if (box(element).right > innerWidth + 0.5 || box(element).left < -0.5) wrong("it leaves the window", element);
    const style = getComputedStyle(element);
    const is_cut = style.overflowX !== "visible" && !element.matches(".wide") && element.scrollWidth > element.clientWidth + 1;
    if (is_cut) wrong("it is cut", element);
  }
  for (const list of all(".legend, .scale")) pairs(all("li", list), "the name");
  all("section").forEach((section) => pairs([...section.children].filter(is_shown), "what follows"));

  // Drawings: one of the two of each chart, its texts readable, within it and apart.
  for (const plot of all(".plot")) {
    const drawings = all("svg", plot).filter(is_shown);
    if (drawings.length !== 1) wrong(`${drawings.length} drawings are shown`, plot);
    const texts = all("text", drawings[0]).filter(is_shown);
    if (texts.length < 4) wrong("a chart has no labels", drawings[0]);
    const frame = box(drawings[0]);
    for (const text of texts) {
      const own = box(text);
      const is_inside = own.left >= frame.left - 0.5 && own.right <= frame.right + 0.5
        && own.top >= frame.top - 0.5 && own.bottom <= frame.bottom + 0.5;
      if (!is_inside) wrong("a label leaves its chart", text);
      const size = Number(text.getAttribute("font-size")) * text.getScreenCTM().a;
      if (size < 11) wrong(`a label has ${size.toFixed(1)} pixels`, text);
    }
    pairs(texts, "the label");
    if (all(".legend li", plot.parentElement).length !== all("[data-series]", drawings[0]).length) {
      wrong("the legend does not name every series", plot);
    }
  }

  // Texts: large enough, and with contrast to what is behind (WCAG 2.2, 1.4.3).
  const channels = (color) => (color.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const light = (color) => {
    const linear = channels(color).slice(0, 3).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if ((channels(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !is_shown(element) || seen.has(element)) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const is_drawn = element.closest("svg") !== null;
    if (!is_drawn && parseFloat(style.fontSize) < 11) wrong(`a text has ${style.fontSize}`, element);
    const [a, b] = [light(is_drawn ? style.fill : style.color), light(behind(element))].sort((a, b) => b - a);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) wrong(`a text has a contrast of ${ratio.toFixed(2)}`, element);
  }

  // Fingers: 24 pixels (WCAG 2.2, 2.5.8), links in lists and the heads of tables aside, which have space around them.
  for (const button of all("button").filter((button) => is_shown(button) && !button.closest("th"))) {
    if (box(button).width < 24 || box(button).height < 24) wrong(`a button is ${box(button).height} high`, button);
  }

  // A table that is wider than the window scrolls, and its first column stays.
  for (const wide of all(".wide").filter((wide) => wide.scrollWidth > wide.clientWidth + 4)) {
    wide.scrollLeft = wide.scrollWidth;
    const firsts = [...wide.querySelector("table").rows].map((row) => row.cells[0]);
    if (firsts.some((cell) => Math.abs(box(cell).left - box(wide).left) > 3)) wrong("the first column leaves", wide);
    if (box(firsts[0]).width > 0.6 * wide.clientWidth) wrong("the first column takes the room of the others", wide);
    wide.scrollLeft = 0;
  }
  return found;
})()
