// The sessions that are listed: read page by page, and kept right by what the stream of the store tells.
import { signal } from "@preact/signals";
import { get, session as at } from "../api/client";
import type { Change, Page, SessionInfo } from "../api/types";
import { told } from "../app/toast";
import { type Filters, foldsForks, inThisZone, matches, showsSubagents } from "./filters";
import { Forks } from "./forks";
import { isBefore, keyOf, type Row, rowOf } from "./rows";

const FIRST_PAGE = 50;
const PAGE = 200;
/** Milliseconds: what changes at once is drawn at once. */
const TOGETHER = 100;
/** Milliseconds after the pointer moved over the list, for which no row moves away below it. */
const HOLD = 1500;
/** Subagents of subagents. */
const DEEPEST = 8;

export class SessionList {
  /** Counts what changed: read it, and the rows are drawn again. */
  readonly version = signal(0);
  readonly state = signal<"loading" | "ready" | "failed">("loading");
  /** Newest first, without folded subagents and forks. */
  private rows: Row[] = [];
  private byKey = new Map<string, Row>();
  /** Of the sessions that are unfolded. */
  private children = new Map<string, Row[]>();
  private flat: readonly Row[] | null = null;
  private depths = new Map<string, number>();
  private cursor: string | null = null;
  /** The last row of the last page that was read. */
  private end: Row | null = null;
  private isReading = false;
  private over = new AbortController();
  private waiting = new Map<string, SessionInfo | null>();
  private timer = 0;
  private heldUntil = 0;
  private stale = new Set<string>();
  private isOld = false;
  private readonly forks = new Forks(
    (id) => this.find(id),
    (row) => matches(row, this.filters),
    this.over.signal,
  );

  constructor(readonly filters: Filters) {}

  // -- what is shown

  /** Rows as they stand below each other, unfolded subagents and forks included. */
  get shown(): readonly Row[] {
    if (this.children.size === 0) return this.rows;
    if (this.flat !== null) return this.flat;
    const found: Row[] = [];
    this.depths.clear();
    const add = (rows: readonly Row[], depth: number) => {
      for (const row of rows) {
        found.push(row);
        if (depth > 0) this.depths.set(row.id, depth);
        const below = depth < DEEPEST ? this.children.get(row.id) : undefined;
        if (below) add(below, depth + 1);
      }
    };
    add(this.rows, 0);
    this.flat = found;
    return found;
  }

  private changed(): void {
    this.flat = null;
    this.version.value++;
  }

  get hasMore(): boolean {
    return this.cursor !== null;
  }

  /** How deep a row stands below others. */
  depthOf(row: Row): number {
    return this.depths.get(row.id) ?? 0;
  }

  find(id: string): Row | undefined {
    const found = this.byKey.get(id);
    if (found) return found;
    for (const rows of this.children.values()) {
      const child = rows.find((one) => one.id === id);
      if (child) return child;
    }
    return undefined;
  }

  isOpen(id: string): boolean {
    return this.children.has(id);
  }

  // -- reading

  private query(): Record<string, string | number | boolean | string[] | null> {
    const { deleted, ...rest } = inThisZone(this.filters);
    return { ...rest, deleted: deleted || null, subagents: showsSubagents(this.filters) ? null : false, usage: true };
  }

  /** Read the next page, if there is one, and it is not being read. */
  async more(): Promise<void> {
    const isFirst = this.state.peek() !== "ready";
    if (this.isReading || !(isFirst || this.hasMore)) return;
    this.isReading = true;
    try {
      const asked = { ...this.query(), limit: isFirst ? FIRST_PAGE : PAGE, cursor: this.cursor };
      const page = await get<Page<SessionInfo>>("/sessions", asked, this.over.signal);
      const rows = page.data.map((info) => rowOf(info));
      if (foldsForks(this.filters)) await this.forks.lookUp(rows);
      for (const row of rows) {
        // One that went on meanwhile is at the front already.
        if (!this.byKey.has(keyOf(row)) && !this.foldFork(row)) this.put(row, this.rows.length);
        this.end = row;
      }
      this.cursor = page.cursor;
      this.state.value = "ready";
      if (this.isOld) void this.again();
      if (this.waiting.size > 0) this.soon();
    } catch (error) {
      if (isFirst && !this.over.signal.aborted) this.state.value = "failed";
      told(error);
    } finally {
      this.isReading = false;
      this.changed();
    }
  }

  /** Read the beginning again: something may have happened before the stream began. */
  async again(): Promise<void> {
    // What is being read may be from before the stream began: it is read once more.
    this.isOld = this.state.peek() !== "ready";
    if (this.isOld) return this.more();
    const before = new Set(this.rows);
    const asked = { ...this.query(), limit: FIRST_PAGE };
    const page = await get<Page<SessionInfo>>("/sessions", asked, this.over.signal).catch(() => null);
    if (page === null) return;
    if (foldsForks(this.filters)) await this.forks.lookUp(page.data.map((info) => rowOf(info)));
    const there = new Set<string>();
    let oldest = Infinity;
    for (const info of page.data) {
      const row = rowOf(info);
      const known = this.byKey.get(keyOf(row));
      there.add(keyOf(row));
      oldest = Math.min(oldest, row.at);
      // What the stream told since the question is newer than the answer.
      if (known === undefined || before.has(known)) this.place(info);
    }
    if (page.cursor === null) oldest = -Infinity;
    for (const row of before) {
      if (row.at > oldest && !there.has(keyOf(row)) && this.byKey.get(keyOf(row)) === row) this.drop(row);
    }
    this.changed();
  }

  async unfold(id: string): Promise<void> {
    try {
      const row = this.find(id);
      const [page, forks] = await Promise.all([
        get<Page<SessionInfo>>("/sessions", { parent: id, usage: true, limit: PAGE }, this.over.signal),
        row ? this.forks.read(row) : [],
      ]);
      const below = [...page.data, ...forks].map((info) => rowOf(info));
      this.children.set(id, below.sort((one, other) => (isBefore(one, other) ? -1 : 1)));
      this.changed();
    } catch (error) {
      told(error);
    }
  }

  fold(id: string): void {
    for (const child of this.children.get(id) ?? []) this.fold(child.id);
    this.children.delete(id);
    this.changed();
  }

  close(): void {
    this.over.abort();
    clearTimeout(this.timer);
  }

  // -- what happens meanwhile

  onChange(change: Change): void {
    this.waiting.set(change.session, change.info);
    this.soon();
  }

  /** What an answer of the server says of a session, at once. */
  tell(info: SessionInfo): void {
    this.waiting.delete(info.id);
    this.place(info);
    this.changed();
  }

  /** Somebody points at a row: it is not to slip away. */
  hold(): void {
    this.heldUntil = Date.now() + HOLD;
  }

  private soon(wait = TOGETHER): void {
    if (this.timer !== 0 || this.over.signal.aborted) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      this.settle();
    }, wait);
  }

  private settle(): void {
    if (this.state.peek() !== "ready") return; // what came meanwhile is placed behind the first page
    const rest = this.heldUntil - Date.now();
    const told = this.waiting;
    this.waiting = new Map();
    for (const [id, info] of told) {
      if (info === null) void this.lookAfter(id);
      else if (rest > 0 && this.mayWait(info)) this.waiting.set(id, info);
      else this.place(info);
    }
    this.changed();
    if (this.waiting.size > 0) this.soon(rest);
  }

  /** Show what is new of a session in its place; whether the place itself is to change, later. */
  private mayWait(info: SessionInfo): boolean {
    const before = this.byKey.get(keyOf(rowOf(info)));
    if (!before) return true;
    const row = rowOf(info, before);
    if (!matches(row, this.filters)) return true;
    this.replace(before, { ...row, at: before.at, lead: before.lead });
    return this.rows[0]?.id !== row.id;
  }

  /** The stream says nothing of a session that is damaged or purged: the server does. */
  private async lookAfter(id: string): Promise<void> {
    const row = this.find(id);
    if (!row) return;
    const found = await get<SessionInfo>(at(id)).catch(() => null);
    if (found) this.place(found);
    else this.takeOut(row);
    this.changed();
  }

  /** Take out a session that is gone. What was folded into it gets a place of its own. */
  private takeOut(row: Row): void {
    this.drop(row);
    this.children.delete(row.id);
    for (const one of this.forks.gone(row.id)) if (!this.foldFork(one)) this.insert(one);
  }

  /** Put a session where it belongs now, or take it out. */
  private place(info: SessionInfo): void {
    const before = this.find(info.id);
    const row = rowOf(info, before);
    if (this.filters.deleted && before === undefined && !row.isDeleted) {
      // It may be one that came back from the trash.
      const back = this.rows.find((one) => one.id === row.id && one.created === row.created);
      if (back) this.drop(back);
    }
    if (row.parent !== null && !showsSubagents(this.filters) && !this.byKey.has(row.id)) {
      this.placeBelow(row, before);
      return;
    }
    if (foldsForks(this.filters) && this.placeFork(row, before)) return;
    this.placeAlone(row, before);
  }

  private placeAlone(row: Row, before: Row | undefined): void {
    if (before && !this.filters.deleted) this.drop(before);
    const same = this.byKey.get(keyOf(row));
    if (same) this.drop(same);
    if (!matches(row, this.filters)) return;
    if (this.hasMore && this.end && isBefore(this.end, row)) return; // it comes with its page
    this.insert(row);
    if (before || row.forks === 0 || !foldsForks(this.filters)) return;
    // It came back from the trash: its forks have been without it.
    for (const one of this.rows.filter((one) => this.forks.rootOf(one)?.id === row.id)) {
      this.drop(one);
      this.foldFork(one);
    }
  }

  private insert(row: Row): void {
    const index = this.rows.findIndex((one) => isBefore(row, one));
    this.put(row, index < 0 ? this.rows.length : index);
  }

  /** Fold a fork into the row that it belongs to, which stands where the newest of its forks would. False: it has a
   * place of its own. */
  private foldFork(row: Row): boolean {
    const root = row.base !== null && foldsForks(this.filters) && !row.isDeleted ? this.forks.rootOf(row) : null;
    if (root === null) return false;
    this.forks.fold(row);
    const shown = this.byKey.get(keyOf(root));
    if (shown && shown.lead >= row.at) return true;
    const lifted = { ...(shown ?? root), lead: Math.max((shown ?? root).lead, row.at) };
    if (shown) this.drop(shown);
    this.insert(lifted);
    return true;
  }

  /** What happened to a fork, or to a session that has some. True: nothing else is to be done. */
  private placeFork(row: Row, before: Row | undefined): boolean {
    if (row.isDeleted) this.takeOut(before ?? row);
    else this.forks.there(row.id);
    if (row.base === null) return false;
    if (!this.forks.knows(row)) {
      void this.forks.lookUp([row]).then(() => {
        if (!this.placeFork(row, before)) this.placeAlone(row, this.find(row.id));
        this.changed();
      });
      return true;
    }
    const root = this.forks.rootOf(row);
    if (root === null) return false;
    const siblings = this.children.get(row.base);
    if (siblings) {
      const others = siblings.filter((one) => one.id !== row.id);
      if (!row.isDeleted) others.push(row);
      this.children.set(row.base, others.sort((one, other) => (isBefore(one, other) ? -1 : 1)));
    }
    if (this.byKey.has(row.id)) this.drop(this.byKey.get(row.id)!);
    this.foldFork(row);
    if (before === undefined || row.isDeleted) this.countAgain(root.id);
    return true;
  }

  /** A subagent: its parent's row counts it, and shows it if it is unfolded. */
  private placeBelow(row: Row, before: Row | undefined): void {
    const siblings = this.children.get(row.parent!);
    if (siblings) {
      const others = siblings.filter((one) => one.id !== row.id);
      if (!row.isDeleted) others.push(row);
      this.children.set(row.parent!, others.sort((one, other) => (isBefore(one, other) ? -1 : 1)));
    }
    if (before && before.cost === row.cost && before.status === row.status && before.isDeleted === row.isDeleted) return;
    let top: Row | undefined = row;
    for (let steps = 0; top?.parent && !this.byKey.has(top.id) && steps < DEEPEST; steps++) top = this.find(top.parent);
    if (top && this.byKey.has(top.id)) this.countAgain(top.id);
  }

  private countAgain(id: string): void {
    if (this.stale.size === 0) setTimeout(() => void this.refresh(), 5 * TOGETHER);
    this.stale.add(id);
  }

  /** Read the sums of sessions again, whose subagents went on or that have other forks now. */
  private async refresh(): Promise<void> {
    const ids = [...this.stale];
    this.stale.clear();
    for (const id of ids) {
      const row = this.byKey.get(id);
      if (!row) continue;
      // There is no way to ask for one session with its sums, but for the time of its last activity.
      const since = new Date(Math.floor(row.at)).toISOString();
      const until = new Date(Math.floor(row.at) + 1).toISOString();
      const asked = { since, until, usage: true, limit: PAGE };
      const page = await get<Page<SessionInfo>>("/sessions", asked, this.over.signal).catch(() => null);
      const found = page?.data.find((one) => one.id === id);
      if (found && this.byKey.get(id) === row) this.place(found);
    }
    this.changed();
  }

  private put(row: Row, index: number): void {
    this.rows.splice(index, 0, row);
    this.byKey.set(keyOf(row), row);
  }

  private replace(before: Row, row: Row): void {
    this.rows[this.rows.indexOf(before)] = row;
    this.byKey.set(keyOf(row), row);
  }

  private drop(row: Row): void {
    const index = this.rows.indexOf(row);
    if (index < 0) {
      const owner = row.parent ?? row.base ?? "";
      const siblings = this.children.get(owner);
      if (siblings) this.children.set(owner, siblings.filter((one) => one.id !== row.id));
      return;
    }
    this.rows.splice(index, 1);
    this.byKey.delete(keyOf(row));
  }
}
