// Forks and copies of the list: which session each is folded into, and what must be read to know it.
import { get, session as at } from "../api/client";
import type { Tree } from "../api/trees";
import type { Page, SessionInfo } from "../api/types";
import { type Row, rowOf } from "./rows";

/** Forks of forks. */
const DEEPEST = 8;
const MOST = 200;

export class Forks {
  /** Forks that are folded, by their ids. */
  private readonly folded = new Map<string, Row>();
  /** Sessions that were looked up because a fork names them; null: not there. */
  private readonly bases = new Map<string, Row | null>();

  constructor(
    private readonly listed: (id: string) => Row | undefined,
    /** Whether the list can show a session at all. */
    private readonly fits: (row: Row) => boolean,
    private readonly over: AbortSignal,
  ) {}

  /** The base of a fork; undefined: it has to be looked up first; null: it is not there. */
  private baseOf(row: Row): Row | null | undefined {
    return this.listed(row.base!) ?? this.folded.get(row.base!) ?? this.bases.get(row.base!);
  }

  /** Look up what these rows name, and what that names. */
  async lookUp(rows: readonly Row[]): Promise<void> {
    let waiting = rows;
    for (let depth = 0; depth < DEEPEST && waiting.length > 0; depth++) {
      const unknown = new Set(waiting.filter((row) => row.base !== null && this.baseOf(row) === undefined).map((row) => row.base!));
      const found = await Promise.all(
        [...unknown].map(async (id) => {
          const info = await get<SessionInfo>(at(id), { usage: true }, this.over).catch(() => null);
          const row = info && info.id === id ? rowOf(info) : null;
          this.bases.set(id, row);
          return row;
        }),
      );
      waiting = found.filter((row) => row !== null);
    }
  }

  /** Whether all is known that tells where a row belongs. */
  knows(row: Row): boolean {
    let one: Row | null | undefined = row;
    for (let depth = 0; depth < DEEPEST && one?.base; depth++) one = this.baseOf(one);
    return one !== undefined;
  }

  /** The row that a fork is folded into; null: it has a place of its own. A ring, which only odd metadata form, folds nothing. */
  rootOf(row: Row): Row | null {
    const seen = new Set([row.id]);
    let top = row;
    while (top.base !== null) {
      if (seen.has(top.base)) return null;
      seen.add(top.base);
      const base = this.baseOf(top);
      // One that is younger got the id of a base that is gone.
      if (!base || base.created > top.created || base.parent !== null || base.isDamaged || base.isDeleted || !this.fits(base)) break;
      top = base;
    }
    return top === row ? null : top;
  }

  fold(row: Row): void {
    this.folded.set(row.id, row);
  }

  /** A session is gone: the rows that were folded into it, now without a place. */
  gone(id: string): Row[] {
    this.folded.delete(id);
    this.bases.set(id, null);
    const homeless = [...this.folded.values()].filter((row) => {
      const seen = new Set<string>();
      for (let one: Row | null | undefined = row; one?.base && !seen.has(one.base); one = this.baseOf(one)) {
        if (one.base === id) return true;
        seen.add(one.base);
      }
      return false;
    });
    for (const row of homeless) this.folded.delete(row.id);
    return homeless;
  }

  /** A session is there: what was looked up of it before does not count any more. */
  there(id: string): void {
    this.bases.delete(id);
  }

  /** The forks and copies of one session, without those of these. */
  async read(row: Row): Promise<SessionInfo[]> {
    if (row.forks === 0) return [];
    const where = JSON.stringify({ copied_from: row.id });
    const [tree, copies] = await Promise.all([
      get<Tree>(at(row.id, "/tree"), {}, this.over),
      get<Page<SessionInfo>>("/sessions", { where, usage: true, limit: MOST }, this.over),
    ]);
    const ids = Object.keys(tree.forks).filter((id) => tree.forks[id]!.session === row.id);
    const forks = await Promise.all(
      ids.slice(0, MOST).map((id) => get<SessionInfo>(at(id), { usage: true }, this.over).catch(() => null)),
    );
    const found = [...forks.filter((info) => info !== null), ...copies.data.filter((info) => info.forked_from === null)];
    return found.filter((info) => info.parent === null && info.id !== row.id && rowOf(info).created >= row.created);
  }
}
