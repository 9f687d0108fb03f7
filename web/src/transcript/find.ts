// Find in the whole session: the server finds, the page goes from hit to hit and marks the words in view.
import { signal } from "@preact/signals";
import { get, isShare, session } from "../api/client";
import type { EntryPage, Hit, Page } from "../api/types";
import { place } from "../app/router";
import type { Reading } from "./Reading";

/** Hits that are fetched: whoever goes through them one by one does not need more. */
const MOST = 1000;
const WAIT = 150;

type Found = Pick<Hit, "entry_id" | "position" | "snippet" | "marks" | "in_tool">;

export class Finder {
  readonly text = signal("");
  readonly hits = signal<readonly Found[]>([]);
  readonly at = signal(-1);
  readonly isSearching = signal(false);
  readonly hasMore = signal(false);
  readonly problem = signal("");
  private timer = 0;
  /** The hit to which the reader goes, while its words are not in view yet. */
  private going: number | null = null;
  private over: AbortController | null = null;

  constructor(private readonly reading: Reading) {}

  type(text: string): void {
    this.text.value = text;
    clearTimeout(this.timer);
    this.over?.abort();
    this.hits.value = [];
    this.at.value = -1;
    this.problem.value = "";
    this.isSearching.value = text.trim() !== "";
    if (this.isSearching.value) this.timer = window.setTimeout(() => void this.search(), WAIT);
    this.mark();
  }

  close(): void {
    this.type("");
  }

  private async search(): Promise<void> {
    const over = (this.over = new AbortController());
    try {
      const here = await (isShare() ? this.read(over.signal) : this.ask(over.signal));
      here.sort((a, b) => a.position - b.position);
      this.hits.value = here;
      const from = this.reading.scroller.first;
      const next = here.findIndex((hit) => hit.position >= from);
      this.go(next < 0 ? here.length - 1 : next);
    } catch (error) {
      if (!over.signal.aborted) this.problem.value = (error as Error).message;
    } finally {
      if (this.over === over) this.isSearching.value = false;
    }
  }

  private async ask(stop: AbortSignal): Promise<Found[]> {
    const found: Hit[] = [];
    let cursor: string | null = null;
    do {
      const query = { q: asQuery(this.text.value), session: this.reading.id, tools: true, limit: 200, cursor };
      const page: Page<Hit> = await get<Page<Hit>>("/search", query, stop);
      found.push(...page.data);
      cursor = page.cursor;
    } while (cursor !== null && found.length < MOST);
    this.hasMore.value = cursor !== null;
    // Those on other branches are not here.
    const { at, path } = this.reading;
    return found.filter((hit) => (at === null ? hit.on_path : hit.position < path.length));
  }

  /** A share may not search: the index would tell of what is not shared. So its entries are read. */
  private async read(stop: AbortSignal): Promise<Found[]> {
    const found: Found[] = [];
    const words = wordsOf(this.text.value.toLowerCase());
    let cursor: string | null = null;
    do {
      const query = { view: "blocks", limit: 200, cursor };
      const page: EntryPage = await get<EntryPage>(session(this.reading.id, "/entries"), query, stop);
      for (const { id, position, blocks = [] } of page.data) {
        const text = blocks.map((block) => block.text ?? "").join("\n");
        const at = text.toLowerCase().indexOf(words[0] ?? "\n\n\n");
        if (at < 0 || !words.every((word) => text.toLowerCase().includes(word))) continue;
        const in_tool = blocks.some((block) => block.call !== undefined);
        found.push({ entry_id: id, position, snippet: text.slice(Math.max(0, at - 40), at + 80), marks: [], in_tool });
      }
      cursor = page.cursor;
    } while (cursor !== null && found.length < MOST);
    this.hasMore.value = cursor !== null;
    return found;
  }

  next(step: 1 | -1): void {
    const count = this.hits.value.length;
    if (count) this.go((this.at.value + step + count) % count);
  }

  go(index: number): void {
    this.at.value = index;
    const hit = this.hits.value[index];
    if (!hit) return;
    this.going = hit.position;
    this.reading.goToHit(hit.position, hit.in_tool);
  }

  /** What is typed here; else what the search in all sessions looks for: it opened this transcript. */
  private words(): string[] {
    return wordsOf(this.text.value || (place.value.query.get("q") ?? ""));
  }

  /** Unfold what holds the words of a hit that was opened by its address, and bring them into view. */
  visit(position: number): void {
    const words = this.words().map((word) => word.toLowerCase());
    if (!words.length) return;
    this.going = position;
    const blocks = this.reading.path.get(position)?.blocks ?? [];
    const isInTool = blocks.some((one) => one.kind !== "text" && words.some((word) => one.text?.toLowerCase().includes(word)));
    this.reading.goToHit(position, isInTool);
  }

  /** Mark the words in what is drawn, without touching it. */
  mark(): void {
    const registry = CSS.highlights;
    if (!registry) return;
    registry.delete("clew-find");
    const words = this.words();
    const feed = document.getElementById("transcript");
    if (!words.length || !feed) return;
    const pattern = new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "giu");
    const ranges: Range[] = [];
    const walker = document.createTreeWalker(feed, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
      for (const found of node.nodeValue!.matchAll(pattern)) {
        const range = document.createRange();
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].length);
        ranges.push(range);
      }
    }
    if (ranges.length) registry.set("clew-find", new Highlight(...ranges));
    if (this.going !== null) this.arrive(feed, ranges, this.reading.rowOf(this.going));
  }

  /** In a long entry the words may be far below its beginning. */
  private arrive(feed: HTMLElement, ranges: readonly Range[], position: number): void {
    const row = feed.querySelector(`[data-at="${position}"]`);
    const range = ranges.find((one) => row?.contains(one.startContainer));
    if (!range) return;
    this.going = null;
    const box = range.startContainer.parentElement!.closest("pre");
    if (box) box.scrollTop += range.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 2;
    const { top, bottom } = range.getBoundingClientRect();
    const seen = feed.getBoundingClientRect();
    if (top < seen.top || bottom > seen.bottom) this.reading.scroller.by(top - seen.top - seen.height / 3);
  }
}

/** What is typed is a beginning, until there is a space behind it. */
function asQuery(text: string): string {
  return /[\p{L}\p{N}]$/u.test(text) && (text.split('"').length - 1) % 2 === 0 ? `${text}*` : text;
}

function wordsOf(text: string): string[] {
  const bare = text.replace(/(^|\s)-\S+/g, " ");
  const phrases = [...bare.matchAll(/"([^"]+)"/g)].map((found) => found[1]!);
  const words = bare.replace(/"[^"]*"?/g, " ").split(/[\s*]+/);
  return [...phrases, ...words].filter((word) => word.length > 1 || /[^\x00-\x7f]/.test(word)).sort((a, b) => b.length - a.length);
}
