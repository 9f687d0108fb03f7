"use strict";
(() => {
  const all = (what, inside = document) => [...inside.querySelectorAll(what)];
  const one = (id) => document.getElementById(id);
  const shown = (element) => element.getClientRects().length > 0;
  const prompts = () => all("main > section > article.prompt").filter(shown);

  // What was not drawn yet has only a guessed height: look again when it is drawn.
  const go = (place, times = 6) => {
    const top = place.getBoundingClientRect().top;
    place.scrollIntoView();
    const moved = Math.abs(place.getBoundingClientRect().top - top) > 2;
    if (times > 0 && (moved || times > 4)) requestAnimationFrame(() => go(place, times - 1));
  };

  // Jump between prompts: the one before or after the top of the window.
  const jump = (step) => {
    const places = prompts();
    if (!places.length) return;
    const line = parseFloat(getComputedStyle(places[0]).scrollMarginTop) || 0;
    const tops = places.map((prompt) => prompt.getBoundingClientRect().top);
    const at = step > 0 ? tops.findIndex((top) => top > line + 8) : tops.findLastIndex((top) => top < line - 8);
    if (at >= 0) go(places[at]);
    else if (step < 0) window.scrollTo(0, 0);
  };

  // Fold and unfold everything.
  const fold = one("fold");
  let open = false;
  const unfold = () => {
    open = !open;
    all("main details").forEach((details) => { details.open = open; });
    fold.textContent = open ? "Collapse all" : "Expand all";
  };

  one("back").addEventListener("click", () => jump(-1));
  one("next").addEventListener("click", () => jump(1));
  fold.addEventListener("click", unfold);
  all(".bar button").forEach((button) => { button.hidden = false; });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea")) return;
    const act = { j: () => jump(1), k: () => jump(-1), e: unfold }[event.key];
    if (act) act();
  });

  // Copy code: a button in the block under the pointer, or the one that was touched.
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "copy";
  copy.textContent = "Copy";
  let block = null;
  document.addEventListener("pointerover", (event) => {
    const found = event.target instanceof Element ? event.target.closest("pre") : null;
    if (!found || found === block) return;
    block = found;
    copy.textContent = "Copy";
    block.before(copy);
  });
  const selected = (text) => {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  };
  copy.addEventListener("click", async () => {
    const lines = all(":scope > .l", block);
    const text = lines.length
      ? lines.map((line) => line.textContent).join("\n")
      : (block.querySelector("code") || block).textContent;
    let done = false;
    try {
      await navigator.clipboard.writeText(text);
      done = true;
    } catch {
      done = selected(text);
    }
    copy.textContent = done ? "Copied" : "Not copied";
  });

  // A link to a place inside of something folded unfolds it.
  const reveal = () => {
    const place = location.hash.length > 1 ? one(location.hash.slice(1)) : null;
    if (!place) return;
    const around = place.closest("details");
    for (let each = around; each; each = each.parentElement.closest("details")) each.open = true;
    go(place);
  };
  window.addEventListener("hashchange", reveal);
  reveal();

  // Mark the prompt that is being read in the list of prompts.
  const links = new Map(all("#prompts a").map((link) => [link.getAttribute("href").slice(1), link]));
  let marked = null;
  let waiting = false;
  const mark = () => {
    waiting = false;
    const places = prompts();
    let low = 0;
    let high = places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places[middle].getBoundingClientRect().top <= 120) low = middle + 1;
      else high = middle;
    }
    const link = low ? links.get(places[low - 1].id) : null;
    if (link === marked) return;
    if (marked) marked.removeAttribute("aria-current");
    if (link) {
      link.setAttribute("aria-current", "true");
      const list = one("prompts");
      if (getComputedStyle(list).position === "sticky") {
        const top = link.offsetTop - list.clientHeight / 2;
        list.scrollTo(0, Math.max(0, top));
      }
    }
    marked = link;
  };
  document.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(mark);
  }, { passive: true });
  mark();
})();
