// Lays the tree of a session out in lanes, oldest first. The path of the session runs straight down in the first
// lane; what leaves it is drawn to the right, at once and whole: there are never more lanes than forks within forks.
import type { Checkpoint, Tree } from "../api/trees";
import { entryId, type Head, type OutlineItem } from "../api/types";

/** On the path of the session, on that of a relative, or on no path any more. */
export type State = "here" | "elsewhere" | "left";

export interface Row {
  /** The id of the entry, or "start". */
  id: string;
  position: number;
  lane: number;
  /** Which lanes further left go on beside this row. */
  beside: readonly boolean[];
  /** The lane that this row leaves; null: it goes on in its own, or begins. */
  from: number | null;
  hasAbove: boolean;
  hasBelow: boolean;
  state: State;
  /** The prompt, or the text of a compaction. */
  point: OutlineItem | null;
  checkpoints: readonly Checkpoint[];
  /** The sessions that stand here. */
  heads: readonly string[];
  /** The end of the branch that this row is on: what is read when one chooses it. */
  leaf: string;
  /** Of the first row of a branch: how many entries it has. */
  entries: number;
}

const MOST_LANES = 12;
const START: Head = { branch: "", position: -1 };
const key = (head: Head): string => (head.position < 0 ? "start" : entryId(head));

/** How far each branch is part of the paths to these places. */
export function reached(heads: Iterable<Head>, tree: Tree): Map<string, number> {
  const parents = new Map(tree.branches.map((one) => [one.id, one.parent]));
  const found = new Map<string, number>();
  for (let head of heads) {
    for (;;) {
      if (head.position < 0 || (found.get(head.branch) ?? -1) >= head.position) break;
      found.set(head.branch, head.position);
      const parent = parents.get(head.branch);
      if (!parent) break;
      head = parent;
    }
  }
  return found;
}

/** The ends of branches that are not on the path of the session: each with texts of its own to be read. */
export function leaves(tree: Tree): Head[] {
  const here = reached([tree.heads[tree.session] ?? START], tree);
  return tree.branches
    .filter((one) => one.last > (here.get(one.id) ?? -1))
    .map((one) => ({ branch: one.id, position: one.last }));
}

export function rowsOf(tree: Tree, points: ReadonlyMap<string, OutlineItem>): Row[] {
  return new Layout(tree, points).rows();
}

class Layout {
  private readonly lasts: Map<string, number>;
  private readonly children = new Map<string, Head[]>();
  private readonly here: Map<string, number>;
  private readonly alive: Map<string, number>;
  private readonly heads = new Map<string, string[]>();
  private readonly checkpoints = new Map<string, Checkpoint[]>();
  /** Of each branch: the positions at which something is to be drawn, in order. */
  private readonly stops = new Map<string, number[]>();
  /** Where the lane of a place ends, as far as it was asked for. */
  private readonly ends = new Map<string, Head>();

  constructor(
    tree: Tree,
    private readonly points: ReadonlyMap<string, OutlineItem>,
  ) {
    this.lasts = new Map(tree.branches.map((one) => [one.id, one.last]));
    this.here = reached([tree.heads[tree.session] ?? START], tree);
    this.alive = reached(Object.values(tree.heads), tree);
    const stops = new Map<string, Set<number>>(tree.branches.map((one) => [one.id, new Set([one.last])]));
    const stop = (head: Head) => stops.get(head.branch)?.add(head.position);
    for (const one of tree.branches) {
      push(this.children, key(one.parent ?? START), { branch: one.id, position: one.first });
      if (one.parent) stop(one.parent);
    }
    for (const [session, head] of Object.entries(tree.heads)) {
      push(this.heads, key(head), session);
      stop(head);
    }
    for (const one of tree.checkpoints) {
      const others = this.checkpoints.get(key(one.head)) ?? [];
      if (others.some((other) => other.name === one.name)) continue; // forks have theirs of the same name
      push(this.checkpoints, key(one.head), one);
      stop(one.head);
    }
    for (const id of points.keys()) {
      const dot = id.lastIndexOf(".");
      stop({ branch: id.slice(0, dot), position: Number(id.slice(dot + 1)) });
    }
    for (const [branch, found] of stops) {
      this.stops.set(branch, [...found].sort((a, b) => a - b));
    }
  }

  rows(): Row[] {
    const rows: Row[] = [];
    interface Waiting {
      entry: Head;
      beside: boolean[];
      from: number | null;
      /** The first of its lane. */
      isFirst: boolean;
    }
    const waiting: Waiting[] = [{ entry: START, beside: [], from: null, isFirst: true }];
    let drawn = false; // whether the first lane has begun
    while (waiting.length) {
      const { entry, beside, from, isFirst } = waiting.pop()!;
      const after = this.after(entry);
      const straight = this.straightOn(entry, after);
      const isStart = entry.position < 0;
      const isNamed = this.isNamed(entry);
      const isShown = isNamed || (isStart ? after.length !== 1 || straight === null : isFirst);
      if (isShown) {
        rows.push(this.row(entry, beside, from, !isFirst && drawn, after.length > 0, isFirst));
        drawn = true;
      }
      // The lane begins with the first row that is drawn in it.
      if (straight) waiting.push({ entry: straight, beside, from: null, isFirst: isFirst && !isShown });
      const aside = after.filter((one) => one !== straight);
      const isFull = beside.length >= MOST_LANES - 1;
      aside.toReversed().forEach((one, index) => {
        const isLast = straight === null && index === 0;
        waiting.push({
          entry: one,
          beside: isFull ? beside : [...beside, !isLast],
          from: beside.length,
          isFirst: true,
        });
      });
    }
    return rows;
  }

  private row(entry: Head, beside: boolean[], from: number | null, hasAbove: boolean, hasBelow: boolean, isFirst: boolean): Row {
    const id = key(entry);
    const leaf = this.leafOf(entry);
    return {
      id,
      position: entry.position,
      lane: beside.length,
      beside,
      from,
      hasAbove,
      hasBelow,
      state: this.state(entry),
      point: this.points.get(id) ?? null,
      checkpoints: this.checkpoints.get(id) ?? [],
      heads: this.heads.get(id) ?? [],
      leaf: key(leaf),
      entries: isFirst ? leaf.position - entry.position + 1 : 0,
    };
  }

  /** The next places to be drawn: on the branch itself, and of branches that begin behind this entry. */
  private after(entry: Head): Head[] {
    const found: Head[] = [];
    if (entry.position < (this.lasts.get(entry.branch) ?? -1)) found.push(this.nextStop(entry.branch, entry.position + 1));
    for (const child of this.children.get(key(entry)) ?? []) found.push(this.nextStop(child.branch, child.position));
    return found;
  }

  private nextStop(branch: string, from: number): Head {
    const stops = this.stops.get(branch)!;
    let low = 0;
    let high = stops.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (stops[middle]! < from) low = middle + 1;
      else high = middle;
    }
    return { branch, position: stops[low] ?? from };
  }

  /** The place to be drawn below this one. On the session's own path: only one that is on it too. */
  private straightOn(entry: Head, after: readonly Head[]): Head | null {
    if (entry.position < 0 || this.state(entry) === "here") return after.find((one) => this.state(one) === "here") ?? null;
    return after.find((one) => this.state(one) === "elsewhere") ?? after[0] ?? null;
  }

  private leafOf(entry: Head): Head {
    const passed: Head[] = [];
    let end: Head | undefined;
    for (let at = entry; !end; ) {
      passed.push(at);
      const next = this.straightOn(at, this.after(at));
      end = next ? this.ends.get(key(next)) : at;
      if (next) at = next;
    }
    for (const one of passed) this.ends.set(key(one), end);
    return end;
  }

  private state(entry: Head): State {
    if (entry.position <= (this.here.get(entry.branch) ?? -1)) return "here";
    return entry.position <= (this.alive.get(entry.branch) ?? -1) ? "elsewhere" : "left";
  }

  private isNamed(entry: Head): boolean {
    const id = key(entry);
    return this.points.has(id) || this.heads.has(id) || this.checkpoints.has(id);
  }
}

function push<K, V>(map: Map<K, V[]>, name: K, value: V): void {
  const found = map.get(name);
  if (found) found.push(value);
  else map.set(name, [value]);
}

// -- what is shown of many rows

export interface Shown {
  row: Row;
  /** Of a branch that can be folded: whether it is. */
  isFolded: boolean | null;
}

/** With more rows, branches are folded until somebody unfolds them. */
const FEW = 80;

/** The rows that are shown: branches that are folded without what is on them. */
export function shownOf(rows: readonly Row[], isOpen: (row: Row) => boolean | null): Shown[] {
  const found: Shown[] = [];
  for (let index = 0; index < rows.length; index++) {
    const row = rows[index]!;
    const next = rows[index + 1];
    const isFolded = row.from !== null && next && isInside(next, row) ? !(isOpen(row) ?? rows.length <= FEW) : null;
    found.push({ row, isFolded });
    if (isFolded) while (index + 1 < rows.length && isInside(rows[index + 1]!, row)) index++;
  }
  return found;
}

/** Whether a row is on the branch that begins with another one, or on a branch of that. */
function isInside(row: Row, first: Row): boolean {
  return row.lane > first.lane || (row.lane === first.lane && row.from === null);
}
