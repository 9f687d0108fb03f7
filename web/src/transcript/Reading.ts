// One session as it is read: its entries, what of them is shown, where the reader is, and what is unfolded.
import { computed, effect, signal, untracked } from "@preact/signals";
import { ApiError, get, isShare, session } from "../api/client";
import type { Block, Entry, OutlineItem, SessionInfo } from "../api/types";
import { current, cursor, showsThinking, showsTools } from "../app/state";
import { toast, told } from "../app/toast";
import { go, to } from "../app/router";
import { isOwnMove } from "../branches/moves";
import { AGAIN, PAGE, Path, pageOf, positionOf, START, type Moved } from "./path";
import { Scroller } from "./Scroller";
import { lastSeen, see } from "./seen";
import { Subagents } from "./subagents";

/** Only what people said; not kept, because it hides nearly all. */
export const onlyPrompts = signal(false);

/** Pixels of a row, before any was measured. */
const USUAL = 44;
/** Milliseconds between two announcements. */
const ANNOUNCED_EVERY = 2000;
/** Milliseconds after which a tab behind others looks whether there is more. */
const BEHIND_EVERY = 30_000;
/** Entries of a turn that are copied at once. */
const MOST_COPIED = 2000;

export class Reading {
  readonly path: Path;
  readonly scroller: Scroller;
  readonly subagents: Subagents;
  /** There is something to show, or nothing at all. */
  readonly isReady = signal(false);
  readonly problem = signal("");
  /** Keys of what is unfolded: an entry's id, a slash, and the number of its block. */
  readonly open = signal<ReadonlySet<string>>(new Set());
  /** Ids of entries that are shown as they are stored. */
  readonly raw = signal<ReadonlySet<string>>(new Set());
  readonly outline = signal<readonly OutlineItem[]>([]);
  /** Entries that came while the reader was elsewhere. */
  readonly fresh = signal(0);
  /** Entries that are there, but were not told yet: a tab behind others gives its stream back. */
  readonly missed = signal(0);
  /** The last entry that was seen at an earlier visit; null: the line is not shown. */
  readonly seenBefore = signal<number | null>(null);
  /** So many came since then; 0: there is nothing to go back to. */
  readonly unread = signal(0);
  /** What is said to a screen reader. */
  readonly news = signal("");
  readonly prompts = computed(() => this.outline.value.filter((one) => one.kind === "prompt"));
  /** Names of checkpoints by the positions of their entries. */
  readonly checkpoints = computed(() => {
    const found = new Map<number, OutlineItem[]>();
    for (const one of this.outline.value) {
      if (one.kind === "checkpoint") found.set(one.position, [...(found.get(one.position) ?? []), one]);
    }
    return found;
  });

  /** The entry to which the session was moved from here, until the stream brings it. */
  private awaited = "";
  /** Ids of entries that are shown whatever is hidden: the reader went to them. */
  private revealed = new Set<string>();
  private estimate = USUAL;
  /** How many entries the path had when the outline was read, and which reading of it counts. */
  private outlined = 0;
  private outlineTurn = 0;
  private timer = 0;
  private announcing = 0;
  private toAnnounce = "";
  private stops: (() => void)[] = [];
  private isClosed = false;

  constructor(
    readonly id: string,
    readonly at: string | null,
  ) {
    this.path = new Path(id, at, {
      onChange: (pages) => this.onChange(pages),
      onAdded: (entries) => this.onAdded(entries),
      onMoved: (moved) => void this.onMoved(moved),
    });
    this.subagents = new Subagents(id);
    this.scroller = new Scroller((range) => this.path.look(range.first, range.last));
  }

  async start(wanted: string): Promise<void> {
    const seen = this.at === null ? lastSeen(this.id) : null;
    const found = await this.opened(wanted);
    if (this.isClosed) return;
    if (seen !== null && seen < this.path.length - 1) {
      this.seenBefore.value = seen;
      this.unread.value = this.path.length - 1 - seen;
    }
    this.isReady.value = true;
    if (found !== null) this.goTo(found);
    else if (wanted && positionOf(wanted) !== null && this.at === null) await this.onOtherBranch(wanted);
    const shown = () => {
      if (!document.hidden) this.missed.value = 0;
      if (!document.hidden && this.scroller.isAtEnd.peek()) this.seeAll();
    };
    shown();
    this.stops.push(
      whenChanged(() => [showsTools.value, showsThinking.value, onlyPrompts.value], () => this.filter()),
      whenChanged(() => this.scroller.isAtEnd.value, shown),
    );
    document.addEventListener("visibilitychange", shown);
    this.stops.push(() => document.removeEventListener("visibilitychange", shown));
    const timer = setInterval(() => void this.lookFromBehind(), BEHIND_EVERY);
    this.stops.push(() => clearInterval(timer));
    this.stops.push(whenChanged(() => current.value, () => this.readOutlineSoon()));
    await this.readOutline(true);
  }

  /** Open the path; a server that does not answer may do so soon. */
  private async opened(wanted: string): Promise<number | null> {
    for (;;) {
      try {
        return await this.path.open(wanted);
      } catch (error) {
        if (this.isClosed || !(error instanceof ApiError) || error.status !== 0) throw error;
        await new Promise((done) => setTimeout(done, AGAIN));
      }
    }
  }

  close(): void {
    this.isClosed = true;
    this.path.close();
    clearTimeout(this.timer);
    clearTimeout(this.announcing);
    for (const stop of this.stops) stop();
  }

  // -- what is shown

  /** The blocks of an entry that are shown in its own row. */
  shown(entry: Entry): readonly Block[] {
    const blocks = entry.blocks ?? [];
    if (this.revealed.has(entry.id)) return blocks.filter((block) => !this.isInCall(entry, block));
    if (onlyPrompts.peek()) return entry.prompt === undefined ? [] : blocks.filter((block) => block.kind === "text" || block.kind === "media");
    return blocks.filter((block) => {
      if (block.kind === "thinking") return showsThinking.peek();
      if (block.kind === "call") return showsTools.peek();
      if (block.call !== undefined) return showsTools.peek() && !this.isInCall(entry, block);
      return true;
    });
  }

  /** A result stands inside its call, not on its own. */
  private isInCall(entry: Entry, block: Block): boolean {
    return block.kind !== "call" && block.call !== undefined && this.path.callOf(entry.position, block.call) !== null;
  }

  isShown(position: number): boolean {
    const entry = this.path.get(position);
    if (!entry) return this.scroller.heights.get(position) > 0;
    if (this.shown(entry).length > 0 || this.checkpoints.peek().has(position)) return true;
    if (onlyPrompts.peek() && !this.revealed.has(entry.id)) return false;
    return entry.large !== undefined || entry.kind === "damaged" || entry.kind === "removed" || entry.blocks?.length === 0;
  }

  /** Whether an entry goes on where the one before it ended: the same speaker, without a name above it. */
  isJoined(position: number): boolean {
    const entry = this.path.get(position)!;
    if (entry.prompt !== undefined || entry.speaker === "mark") return false;
    for (let at = position - 1; at >= Math.max(0, position - 4 * PAGE); at--) {
      const before = this.path.get(at);
      if (!before) return false;
      if (this.isShown(at)) return voice(before) === voice(entry) && before.prompt === undefined;
    }
    return false;
  }

  // -- changes

  private onChange(pages: ReadonlySet<number>): void {
    const { heights } = this.scroller;
    this.scroller.catchUp();
    if (heights.length === 0) this.guess(pages);
    heights.resize(this.path.length, this.estimate);
    for (const page of pages) this.size(page);
    this.scroller.again();
    if (this.awaited) this.goToMoved(this.awaited);
  }

  /** How high rows are that were not read yet: as those that were. */
  private guess(pages: ReadonlySet<number>): void {
    let sum = 0;
    let count = 0;
    for (const page of pages) {
      for (let at = page * PAGE; at < Math.min((page + 1) * PAGE, this.path.length); at++) {
        const entry = this.path.get(at);
        if (!entry) continue;
        count++;
        if (this.isShown(at)) sum += this.guessed(entry);
      }
    }
    if (count) this.estimate = Math.max(4, sum / count);
  }

  private size(page: number): void {
    const { heights } = this.scroller;
    for (let at = page * PAGE; at < Math.min((page + 1) * PAGE, this.path.length); at++) {
      const entry = this.path.get(at);
      if (!entry) continue;
      if (!this.isShown(at)) heights.set(at, 0, true);
      else if (!heights.isMeasured(at) || heights.get(at) === 0) heights.set(at, this.guessed(entry), false);
    }
  }

  private guessed(entry: Entry): number {
    let height = entry.prompt === undefined ? 10 : 50;
    for (const block of this.shown(entry)) {
      if (block.kind !== "text" || entry.speaker === "other" || entry.speaker === "system") height += 28;
      else height += Math.min(420, 22 * Math.ceil((block.text?.length ?? 0) / 95 + 0.5));
    }
    return height;
  }

  /** Something else is hidden now. */
  private filter(): void {
    const { heights } = this.scroller;
    this.scroller.catchUp();
    this.revealed.clear();
    const loaded = new Set(this.path.loaded());
    this.guess(loaded);
    const only = onlyPrompts.peek() && this.prompts.peek().length ? new Set(this.prompts.peek().map((one) => one.position)) : null;
    heights.fill((at) => (only === null ? this.estimate : only.has(at) ? 80 : 0));
    for (const page of loaded) this.size(page);
    this.scroller.again();
  }

  private onAdded(entries: readonly Entry[]): void {
    this.readOutlineSoon();
    this.announce(entries);
    if (this.scroller.isAtEnd.peek() && !document.hidden) this.seeAll();
    else this.fresh.value = this.fresh.peek() + entries.filter((one) => this.isShown(one.position)).length;
  }

  /** A screen reader is told of the newest message, not of each of many. */
  private announce(entries: readonly Entry[]): void {
    const said = entries.findLast((one) => one.speaker === "assistant" || one.speaker === "user");
    if (!said) return;
    this.toAnnounce = `${said.speaker === "user" ? "User" : "Assistant"}: ${firstWords(said)}`;
    this.announcing ||= window.setTimeout(() => {
      this.announcing = 0;
      this.news.value = this.toAnnounce;
    }, ANNOUNCED_EVERY);
  }

  private async onMoved({ from, left }: Moved): Promise<void> {
    const { tip } = this.path;
    this.fresh.value = 0;
    void this.readOutline(true);
    if (left <= 0 || (await isOwnMove(tip))) return;
    const text = `The session went back by ${left} ${left === 1 ? "entry" : "entries"}.`;
    const action = { title: "Show what was left", run: () => go(to.session(this.id, { at: from })) };
    toast(text, from === null || isShare() ? undefined : action);
  }

  private async lookFromBehind(): Promise<void> {
    if (!document.hidden || this.at !== null) return;
    const found = await get<SessionInfo>(session(this.id)).catch(() => null);
    if (found && document.hidden) this.missed.value = Math.max(0, found.head.position + 1 - this.path.length);
  }

  private seeAll(): void {
    this.fresh.value = 0;
    if (this.at === null) see(this.id, this.path.length - 1);
  }

  // -- going somewhere

  /** Show an entry of the path, whatever is hidden, and put the cursor on it. A result is shown in its call. */
  goTo(position: number, where: "top" | "middle" | "near" = "middle"): void {
    this.awaited = "";
    const entry = this.path.get(position);
    if (!entry) {
      this.scroller.show(position, where);
      void this.path.load(pageOf(position)).then(() => this.path.get(position) && this.goTo(position, where));
      return;
    }
    const row = this.rowOf(position);
    if (row !== position) {
      for (const block of entry.blocks ?? []) if (block.call !== undefined) this.unfold(row, block.call);
    }
    if (!this.isShown(row)) this.reveal(row);
    cursor.value = this.path.get(row)?.id ?? entry.id;
    this.scroller.show(row, where);
  }

  /** To what was found: unfolded, if it is in a tool. */
  goToHit(position: number, isInTool: boolean): void {
    const entry = this.path.get(position);
    if (!entry) {
      this.scroller.show(position, "middle");
      void this.path.load(pageOf(position)).then(() => this.path.get(position) && this.goToHit(position, isInTool));
      return;
    }
    const keys = (entry.blocks ?? []).flatMap((block, index) => {
      return block.kind === "text" || (isInTool && isFolded(block)) ? [`${entry.id}/${index}`] : [];
    });
    this.open.value = new Set([...this.open.peek(), ...keys]);
    this.goTo(position);
  }

  /** To the next or the previous row. */
  async step(direction: 1 | -1): Promise<void> {
    const from = cursor.peek() === null ? null : positionOf(cursor.peek()!);
    let at = from === null || from >= this.path.length ? this.scroller.first : from + direction;
    for (; at >= 0 && at < this.path.length; at += direction) {
      if (!this.path.get(at)) {
        if (!this.isShown(at)) continue;
        await this.path.load(pageOf(at));
        if (!this.path.get(at)) return;
      }
      if (this.isShown(at)) return this.goTo(at, "near");
    }
    if (direction > 0) this.scroller.toEnd();
  }

  /** To the next or the previous prompt. */
  async prompt(direction: 1 | -1): Promise<void> {
    const from = (cursor.peek() === null ? null : positionOf(cursor.peek()!)) ?? this.scroller.first;
    const known = this.prompts.peek().map((one) => one.position);
    let found = direction > 0 ? known.find((at) => at > from) : known.findLast((at) => at < from);
    for (let at = from + direction; found === undefined && !known.length; at += direction) {
      if (at < 0 || at >= this.path.length) break;
      if (!this.path.get(at)) await this.path.load(pageOf(at));
      const entry = this.path.get(at);
      if (!entry) break;
      if (entry.prompt !== undefined) found = at;
    }
    if (found !== undefined) this.goTo(found, "top");
    else if (direction > 0) this.scroller.toEnd();
  }

  /** From the prompt before an entry until before the next one. */
  async turnOf(position: number): Promise<Entry[]> {
    const known = this.prompts.peek().map((one) => one.position);
    const first = known.findLast((at) => at <= position) ?? (known.length ? 0 : position);
    const end = known.find((at) => at > position) ?? (known.length ? this.path.length : position + 1);
    const found: Entry[] = [];
    for (let at = first; at < Math.min(end, first + MOST_COPIED); at++) {
      if (!this.path.get(at)) await this.path.load(pageOf(at));
      const entry = this.path.get(at);
      if (entry) found.push(entry);
    }
    return found;
  }

  toUnread(): void {
    this.unread.value = 0;
    this.goTo(this.seenBefore.peek()! + 1, "top");
  }

  /** To the entry to which the session was moved: now, or as soon as it is on the path. */
  goToMoved(id: string): void {
    const position = positionOf(id)!;
    const isThere = this.path.get(position)?.id === id;
    if (isThere) this.goTo(position, "near");
    else this.awaited = id;
  }

  toEnd(): void {
    this.fresh.value = 0;
    this.scroller.toEnd();
  }

  /** To the beginning or to the end, and put the cursor on the first or the last row. */
  async toEdge(edge: "first" | "last"): Promise<void> {
    const direction = edge === "first" ? 1 : -1;
    const before = cursor.peek();
    this.awaited = "";
    if (edge === "first") this.scroller.toStart();
    else this.toEnd();
    for (let at = edge === "first" ? 0 : this.path.length - 1; at >= 0 && at < this.path.length; at += direction) {
      if (!this.path.get(at)) {
        if (!this.isShown(at)) continue;
        await this.path.load(pageOf(at));
      }
      const entry = this.path.get(at);
      if (!entry || this.isClosed || cursor.peek() !== before) return;
      if (!this.isShown(at)) continue;
      cursor.value = entry.id;
      this.scroller.again();
      return;
    }
  }

  /** The row in which an entry is shown: of a result that is the row of its call. */
  rowOf(position: number): number {
    const entry = this.path.get(position);
    if (!entry || this.isShown(position)) return position;
    const call = entry.blocks?.find((block) => this.isInCall(entry, block))?.call;
    return call === undefined ? position : (this.path.callOf(position, call) ?? position);
  }

  private reveal(position: number): void {
    const entry = this.path.get(position);
    if (!entry) return;
    this.revealed.add(entry.id);
    this.size(pageOf(position));
  }

  private async onOtherBranch(wanted: string): Promise<void> {
    try {
      await get<Entry>(session(this.id, `/entries/${encodeURIComponent(wanted)}`), { view: "line" });
      if (!this.isClosed) go(to.session(this.id, { at: wanted, panel: null }, wanted), { replace: true });
    } catch {
      toast("The entry of this link is not there any more.", undefined, true);
    }
  }

  // -- unfolding

  /** Unfold one call of a row. */
  private unfold(position: number, call: string): void {
    const entry = this.path.get(position);
    const index = entry?.blocks?.findIndex((block) => block.kind === "call" && block.call === call) ?? -1;
    if (index >= 0) this.open.value = new Set([...this.open.peek(), `${entry!.id}/${index}`]);
  }

  toggle(key: string): void {
    const keys = new Set(this.open.peek());
    if (!keys.delete(key)) keys.add(key);
    this.open.value = keys;
  }

  /** Fold or unfold all of a row. */
  fold(position: number): void {
    const entry = this.path.get(position);
    if (!entry) return;
    const own = (entry.blocks ?? []).flatMap((block, index) => (isFolded(block) ? [`${entry.id}/${index}`] : []));
    const keys = new Set(this.open.peek());
    const isOpen = own.some((key) => keys.has(key));
    for (const key of own) isOpen ? keys.delete(key) : keys.add(key);
    this.open.value = keys;
  }

  toggleRaw(id: string): void {
    const ids = new Set(this.raw.peek());
    if (!ids.delete(id)) ids.add(id);
    this.raw.value = ids;
  }

  // -- the outline

  /** All of it, or what is new since it was read: checkpoints are set at the end, so the last entry may have
   * got one. */
  private async readOutline(isWhole: boolean): Promise<void> {
    if (isShare()) return;
    const turn = ++this.outlineTurn;
    const after = isWhole ? -1 : this.outlined - 2;
    const { tip } = this.path;
    try {
      const query = { at: tip === START ? null : tip, after: after < 0 ? null : after };
      const found = await get<{ data: OutlineItem[]; entries: number }>(session(this.id, "/outline"), query);
      if (this.isClosed || turn !== this.outlineTurn) return;
      this.outlined = found.entries;
      this.scroller.catchUp();
      this.outline.value = [...this.outline.peek().filter((one) => one.position <= after), ...found.data];
      for (const one of found.data) if (one.kind === "checkpoint") this.size(pageOf(one.position));
      this.scroller.again();
    } catch (error) {
      if (turn === this.outlineTurn && this.path.tip === tip && isWhole) told(error);
    }
  }

  private readOutlineSoon(): void {
    if (this.timer) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      void this.readOutline(false);
    }, 1000);
  }
}

/** Do something each time that the signals in `look` change, but not at once. */
function whenChanged(look: () => unknown, act: () => void): () => void {
  let isFirst = true;
  return effect(() => {
    look();
    if (isFirst) isFirst = false;
    else untracked(act);
  });
}

export function isFolded(block: Block): boolean {
  return block.kind === "call" || block.kind === "result" || block.kind === "thinking" || block.kind === "data";
}

/** Who speaks: what tools answer belongs to the assistant that called them. */
export function voice(entry: Entry): string {
  return entry.speaker === "tool" ? "assistant" : (entry.speaker ?? "other");
}

function firstWords(entry: Entry): string {
  const said = entry.prompt ?? entry.blocks?.find((block) => block.kind === "text")?.text;
  if (said) return said.slice(0, 200);
  return entry.blocks?.find((block) => block.line)?.line?.text ?? "";
}
