// Find in the whole session: the server finds, the page goes from hit to hit and marks the words in view.
import { computed, signal } from "@preact/signals";
import { get } from "../api/client";
import type { Page } from "../api/types";
import type { Reading } from "./Reading";

interface Hit {
  entry_id: string;
  position: number;
  on_path: boolean;
  snippet: string;
  marks: [number, number][];
  in_tool: boolean;
}

/** Hits that are fetched; "200+" is as good as 5,000 for whoever goes through them one by one. */
const MOST = 1000;
const WAIT = 150;

export class Finder {
  readonly text = signal("");
  readonly hits = signal<readonly Hit[]>([]);
  readonly at = signal(-1);
  readonly isSearching = signal(false);
  readonly hasMore = signal(false);
  readonly problem = signal("");
  readonly hit = computed(() => this.hits.value[this.at.value] ?? null);
  private timer = 0;
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
      const found: Hit[] = [];
      let cursor: string | null = null;
      do {
        const query = { q: asQuery(this.text.value), session: this.reading.id, tools: true, limit: 200, cursor };
        const page: Page<Hit> = await get<Page<Hit>>("/search", query, over.signal);
        found.push(...page.data);
        cursor = page.cursor;
      } while (cursor !== null && found.length < MOST);
      this.hasMore.value = cursor !== null;
      const path = this.reading.path;
      // Those on other branches are not here. On the path that is shown, an entry is where it says.
      const here = found.filter((hit) => (this.reading.at === null ? hit.on_path : hit.position < path.length));
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

  next(step: 1 | -1): void {
    const count = this.hits.value.length;
    if (count) this.go((this.at.value + step + count) % count);
  }

  go(index: number): void {
    this.at.value = index;
    const hit = this.hit.value;
    if (!hit) return;
    this.reading.goToHit(hit.position, hit.in_tool);
  }

  /** Mark the words in what is drawn, without touching it. */
  mark(): void {
    const registry = CSS.highlights;
    if (!registry) return;
    registry.delete("clew-find");
    const words = wordsOf(this.text.value);
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
