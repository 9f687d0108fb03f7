// The entries of a path: read in pages where they are looked at, forgotten where they are not, and followed
// at the end. All pages are read on the path to one entry (`tip`), so they fit together whatever happens
// meanwhile; only the live stream moves the tip.
import { signal } from "@preact/signals";
import { get, session } from "../api/client";
import { follow, type Frame } from "../api/stream";
import type { Block, Entry, EntryPage, Head, Status } from "../api/types";
import { entryId } from "../api/types";

/** Entries of a page. */
export const PAGE = 50;
/** Letters of all pages that are kept, about. */
const KEPT = 12_000_000;
/** Pages around what is looked at, which are always kept. */
const NEAR = 4;

/** Milliseconds until what could not be read is asked for again. */
export const AGAIN = 1000;

export const START = "start";

interface Page {
  entries: Entry[];
  count: number;
  weight: number;
}

export interface Moved {
  from: string | null;
  /** So many entries are not on the path any more. */
  left: number;
}

interface Listener {
  /** These pages have other entries now, or the path has another length. */
  onChange: (pages: ReadonlySet<number>) => void;
  onAdded: (entries: readonly Entry[]) => void;
  onMoved: (moved: Moved) => void;
}

export class Path {
  length = 0;
  tip = START;
  readonly status = signal<Status | null>(null);
  /** Why nothing more will come; empty: it may. */
  readonly over = signal("");
  /** What is wrong with the session as a whole; empty: nothing. */
  readonly damage = signal("");

  private pages = new Map<number, Page>();
  private waiting = new Map<number, { over: AbortController; done: Promise<void> }>();
  private failed = new Map<number, number>();
  /** Positions of the calls and of the results, by what they have in common. */
  private calls = new Map<string, number[]>();
  private results = new Map<string, number[]>();
  private changed = new Set<number>();
  private added: Entry[] = [];
  private timer = 0;
  private ending = new AbortController();
  private stop = () => {};

  constructor(
    readonly session: string,
    /** Another branch: the path to this point, which does not grow. */
    readonly at: string | null,
    private readonly listener: Listener,
  ) {}

  /** Read the end, or the place that is looked for, and follow what comes. The position of `wanted` is
   * returned, or null if it is not on the path. */
  async open(wanted: string): Promise<number | null> {
    const position = positionOf(wanted);
    const first = position === null ? 0 : pageOf(position) * PAGE;
    // Around the place, before anything else: it is what the reader sees first.
    const query = { limit: PAGE, at: this.at, after: first > 0 ? first - 1 : null };
    const around = position === null ? null : await this.read(query).catch(() => null);
    if (around === null || this.at !== null) {
      const end = await this.read({ last: PAGE, at: this.at });
      this.begin(this.at === null ? end.head : headOf(end.data.at(-1)?.id));
      this.take(end, end.data[0]?.position ?? 0, this.length);
    } else {
      this.begin(around.head);
    }
    if (around !== null) this.take(around, first, endOf(around, first + PAGE));
    if (this.at === null) this.follow();
    this.tell();
    return position !== null && this.get(position)?.id === wanted ? position : null;
  }

  close(): void {
    this.ending.abort();
    this.stop();
    clearTimeout(this.timer);
    for (const { over } of this.waiting.values()) over.abort();
  }

  get(position: number): Entry | undefined {
    return this.pages.get(pageOf(position))?.entries[position % PAGE];
  }

  isLoaded(page: number): boolean {
    return (this.pages.get(page)?.count ?? 0) >= Math.min(PAGE, this.length - page * PAGE);
  }

  loaded(): Iterable<number> {
    return this.pages.keys();
  }

  /** Read a page, unless it is there. It does not fail: what could not be read is tried again. */
  async load(page: number): Promise<void> {
    if (page < 0 || page * PAGE >= this.length || this.isLoaded(page)) return;
    const asked = this.waiting.get(page);
    // Somebody else waits for it, too; or did, and went elsewhere.
    if (asked) return asked.over.signal.aborted ? asked.done.then(() => this.load(page)) : asked.done;
    if ((this.failed.get(page) ?? 0) > Date.now()) return;
    const over = new AbortController();
    const done = this.fetch(page, over);
    this.waiting.set(page, { over, done });
    return done;
  }

  private async fetch(page: number, over: AbortController): Promise<void> {
    try {
      const end = Math.min((page + 1) * PAGE, this.length);
      let first = page * PAGE;
      while (first < end) {
        const query = { at: this.tip, limit: end - first, after: first > 0 ? first - 1 : null };
        const found = await this.read(query, over.signal);
        if (over.signal.aborted) return; // the path is another one now
        const next = endOf(found, end);
        this.take(found, first, next);
        first = next;
      }
      this.tell();
    } catch (error) {
      if ((error as Error).name === "AbortError") return;
      this.failed.set(page, Date.now() + AGAIN);
      setTimeout(() => this.ending.signal.aborted || this.tell(), AGAIN);
    } finally {
      if (this.waiting.get(page)?.over === over) this.waiting.delete(page);
    }
  }

  /** Load what is looked at, and what is beside it; forget what is far away. */
  look(first: number, last: number): void {
    const from = pageOf(first);
    const to = pageOf(last);
    for (const [page, { over }] of this.waiting) if (page < from - NEAR || page > to + NEAR) over.abort();
    for (let page = from; page <= to; page++) void this.load(page);
    void this.load(to + 1);
    void this.load(from - 1);
    let weight = 0;
    for (const page of this.pages.values()) weight += page.weight;
    if (weight < KEPT) return;
    const distance = (page: number) => Math.max(from - page, page - to);
    for (const page of [...this.pages.keys()].sort((a, b) => distance(b) - distance(a))) {
      if (weight < KEPT || distance(page) <= NEAR) return;
      weight -= this.pages.get(page)!.weight;
      this.pages.delete(page);
    }
  }

  /** Put what was read of one entry in its place, as the whole of a large one. */
  replace(entry: Entry): void {
    if (this.get(entry.position)?.id !== entry.id) return;
    this.put(entry);
    this.tell();
  }

  /** Where the call is that a result answers; null: it is not known. */
  callOf(position: number, call: string): number | null {
    return this.calls.get(call)?.findLast((at) => at < position) ?? null;
  }

  /** The results of a call, and the pictures in them. */
  answersTo(position: number, call: string): Block[] {
    const next = this.calls.get(call)?.find((at) => at > position) ?? Infinity;
    const found: Block[] = [];
    for (const at of this.results.get(call) ?? []) {
      if (at < position || at > next) continue;
      for (const block of this.get(at)?.blocks ?? []) {
        if (block.kind !== "call" && block.call === call) found.push(block);
      }
    }
    return found;
  }

  private read(query: Record<string, string | number | null>, stop = this.ending.signal): Promise<EntryPage> {
    return get<EntryPage>(session(this.session, "/entries"), { ...query, view: "blocks" }, stop);
  }

  private begin(head: Head): void {
    this.tip = entryId(head);
    this.length = head.position + 1;
  }

  /** Entries of a page that was read, for the positions from `first` until before `end`. */
  private take(page: EntryPage, first: number, end: number): void {
    const reasons = new Map(page.damaged.map((one) => [one.position, one.reason]));
    const found = new Map(page.data.map((one) => [one.position, one]));
    for (let position = first; position < Math.min(end, this.length); position++) {
      this.put(found.get(position) ?? damaged(position, reasons.get(position) ?? "It is missing."));
    }
  }

  private put(entry: Entry): void {
    const number = pageOf(entry.position);
    let page = this.pages.get(number);
    if (!page) this.pages.set(number, (page = { entries: [], count: 0, weight: 0 }));
    const slot = entry.position % PAGE;
    const before = page.entries[slot];
    if (before?.id === entry.id && (before.blocks || !entry.blocks)) return; // entries never change
    page.count += before ? 0 : 1;
    page.weight += weightOf(entry) - (before ? weightOf(before) : 0);
    page.entries[slot] = entry;
    this.changed.add(number);
    for (const block of entry.blocks ?? []) {
      if (block.call === undefined) continue;
      const index = block.kind === "call" ? this.calls : this.results;
      const places = index.get(block.call);
      if (!places) index.set(block.call, [entry.position]);
      else if (!places.includes(entry.position)) places.push(entry.position), places.sort((a, b) => a - b);
      // The row of the call says what came of it.
      const call = block.kind === "call" ? null : this.callOf(entry.position, block.call);
      if (call !== null) this.changed.add(pageOf(call));
    }
  }

  // -- what comes

  private follow(): void {
    this.stop = follow(session(this.session, "/live"), {
      query: { view: "blocks", after: eventId(this.tip) },
      onFrame: (frame) => this.onFrame(frame),
      onEnd: (error) => void (this.over.value = error.message),
    });
  }

  private onFrame({ event, data, id }: Frame): void {
    if (event === "entry") {
      this.length = Math.max(this.length, data.position + 1);
      this.tip = data.id;
      this.put(data);
      this.added.push(data);
      this.soon();
    } else if (event === "moved") {
      const left = this.length - 1 - data.common;
      this.cut(data.common + 1);
      this.tip = id === null ? START : decodeURIComponent(id);
      this.listener.onMoved({ from: data.from === null ? null : entryId(data.from), left });
      this.tell();
    } else if (event === "damaged" && data.position !== null) {
      this.length = Math.max(this.length, data.position + 1);
      this.put(damaged(data.position, data.reason, data.id));
      this.soon();
    } else if (event === "damaged") {
      this.damage.value = data.reason;
    } else if (event === "head" || event === "status") {
      this.status.value = data.status;
    } else if (event === "gone") {
      this.over.value = "This session is not there any more.";
    }
  }

  /** Drop all from this position on. */
  private cut(length: number): void {
    this.length = Math.min(this.length, length);
    this.added = this.added.filter((one) => one.position < length);
    for (const [page, { over }] of this.waiting) if ((page + 1) * PAGE > length) over.abort();
    for (const [number, page] of this.pages) {
      const keep = length - number * PAGE;
      if (keep <= 0) {
        this.pages.delete(number);
      } else if (keep < page.entries.length) {
        page.entries.length = keep;
        page.count = page.entries.filter(Boolean).length;
        page.weight = page.entries.reduce((sum, one) => sum + weightOf(one), 0);
        this.changed.add(number);
      }
    }
    for (const index of [this.calls, this.results]) {
      for (const [call, places] of index) {
        if (places.at(-1)! < length) continue;
        const kept = places.filter((at) => at < length);
        if (kept.length) index.set(call, kept);
        else index.delete(call);
      }
    }
    for (const places of this.calls.values()) for (const at of places) this.changed.add(pageOf(at));
  }

  /** Many frames come at once: tell of them together. */
  private soon(): void {
    if (!this.timer) this.timer = window.setTimeout(() => this.tell(), 16);
  }

  private tell(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    const changed = this.changed;
    const added = this.added;
    this.changed = new Set();
    this.added = [];
    this.listener.onChange(changed);
    if (added.length) this.listener.onAdded(added);
  }
}

export function pageOf(position: number): number {
  return Math.floor(position / PAGE);
}

/** The position in an entry's id; null: it is none. */
export function positionOf(id: string): number | null {
  const found = /\.(\d{1,15})$/.exec(id);
  return found ? Number(found[1]) : null;
}

function headOf(id: string | undefined): Head {
  const position = positionOf(id ?? "") ?? -1;
  return position < 0 ? { branch: "", position } : { branch: id!.slice(0, id!.lastIndexOf(".")), position };
}

/** An entry's id as the stream takes it: a header has plain letters only. */
function eventId(id: string): string {
  return id.replace(/[^\x21-\x7e]|%/gu, encodeURIComponent);
}

/** Behind the last entry that a page covers: one that became too large ends before `end`. */
function endOf(page: EntryPage, end: number): number {
  return page.cursor === null ? end : (page.data.at(-1)?.position ?? end - 1) + 1;
}

function damaged(position: number, reason: string, id = `damaged.${position}`): Entry {
  return { id, position, kind: "damaged", at: "", hash: "", speaker: "mark", line: reason };
}

function weightOf(entry: Entry): number {
  let weight = 300;
  for (const block of entry.blocks ?? []) {
    weight += 200 + (block.text?.length ?? 0) + (block.html?.length ?? 0) + (block.media?.data?.length ?? 0);
  }
  return weight;
}
