// What is wrong with how a page of the book looks at the width of this window, as a list of sentences. Runs in the page.
(() => {
  "use strict";
  const found = [];
  const named = (element) => {
    const text = (element.getAttribute("alt") ?? element.textContent).trim().slice(0, 60);
    return `${element.tagName.toLowerCase()} "${text}"`;
  };
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const main = document.querySelector("main");
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  const is_in_scroller = (element) => {
    for (let at = element; at !== main; at = at.parentElement) if (scrolls(at)) return true;
    return false;
  };

  if (!document.documentElement.lang || !document.title) found.push("the page has no language or no title");
  if (all("h1", main).length !== 1) found.push(`the page has ${all("h1", main).length} first headings`);
  const page = document.scrollingElement;
  if (page.scrollWidth > innerWidth) found.push(`the page is ${page.scrollWidth} wide in a window of ${innerWidth}`);
  for (const element of all("*", main)) {
    if (element.getClientRects().length === 0 || is_in_scroller(element)) continue;
    const { left, right } = element.getBoundingClientRect();
    if (right > innerWidth + 0.5 || left < -0.5) found.push(`it leaves the window: ${named(element)}`);
    const is_cut = getComputedStyle(element).overflowX === "hidden" && element.scrollWidth > element.clientWidth + 1;
    if (is_cut) found.push(`it is cut: ${named(element)}`);
  }
  for (const image of all("img", main)) {
    if (!image.complete || image.naturalWidth === 0) found.push(`it is not shown: ${named(image)}`);
    if (!image.alt.trim()) found.push(`a picture has no name: ${image.src}`);
  }
  // A table that is wider than the window scrolls, and its first column stays.
  for (const wide of all(".table-wrapper", main).filter((wide) => wide.scrollWidth > wide.clientWidth + 4)) {
    wide.scrollLeft = wide.scrollWidth;
    const firsts = all("tr", wide).map((row) => row.cells[0]);
    const leaves = firsts.some((cell) => Math.abs(cell.getBoundingClientRect().left - wide.getBoundingClientRect().left) > 3);
    if (leaves) found.push(`the first column leaves: ${named(firsts[0])}`);
    if (firsts[0].offsetWidth > 0.6 * wide.clientWidth) found.push(`the first column takes the room of others: ${named(firsts[0])}`);
    wide.scrollLeft = 0;
  }
  for (const header of all("th[aria-sort]")) found.push(`a table is sorted at first: ${named(header)}`);
  return found;
})()
