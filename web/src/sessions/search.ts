// Search as you type, in all that was said and in what tools said. The words are in the address.
import { signal } from "@preact/signals";
import { get, session as at } from "../api/client";
import type { Hit, Page, SessionInfo } from "../api/types";
import { told } from "../app/toast";
import { type Filters, inThisZone, matches } from "./filters";
import { type Row, rowOf } from "./rows";

const PAGE = 60;
const MOST_KNOWN = 500;
/** Milliseconds without a new answer, after which the sessions of the hits are read. */
const PAUSE = 200;

export interface Found {
  words: string;
  hits: readonly Hit[];
  cursor: string | null;
}

export interface Group {
  id: string;
  title: string;
  /** Null: not read yet. */
  row: Row | null;
  hits: readonly Hit[];
}

/** What was found; null: nothing is searched for. Stays until the next answer is there. */
export const found = signal<Found | null>(null);
/** An answer is awaited. */
export const isSearching = signal(false);
/** Sessions of hits. */
const known = signal<ReadonlyMap<string, Row | null>>(new Map());

let over = new AbortController();
let timer = 0;

function query(words: string, filters: Filters) {
  const { project, agent, model, tag, since, until } = inThisZone(filters);
  return { q: asTyped(words), tools: true, limit: PAGE, project, agent, model, tag, since, until };
}

/** The last word may be half typed: what begins with it is found too. Not in a phrase, or behind an own `*`. */
function asTyped(words: string): string {
  return /[\p{L}\p{N}_]$/u.test(words) && !/"[^"]*$/.test(words.replace(/"[^"]*"/g, "")) ? `${words}*` : words;
}

export async function search(words: string, filters: Filters): Promise<void> {
  over.abort();
  over = new AbortController();
  clearTimeout(timer);
  if (words === "") {
    found.value = null;
    isSearching.value = false;
    return;
  }
  const { signal } = over;
  isSearching.value = true;
  try {
    const page = await get<Page<Hit>>("/search", query(words, filters), signal);
    found.value = { words, hits: page.data, cursor: page.cursor };
    if (needsSessions(filters)) timer = window.setTimeout(() => void readSessions(page.data), PAUSE);
  } catch (error) {
    if (signal.aborted) return;
    told(error);
  }
  isSearching.value = false;
}

export async function searchOn(filters: Filters): Promise<void> {
  const before = found.peek();
  if (before?.cursor == null || isSearching.peek()) return;
  const { signal } = over;
  isSearching.value = true;
  try {
    const page = await get<Page<Hit>>("/search", { ...query(before.words, filters), cursor: before.cursor }, signal);
    found.value = { words: before.words, hits: [...before.hits, ...page.data], cursor: page.cursor };
    if (needsSessions(filters)) void readSessions(page.data);
  } catch (error) {
    if (signal.aborted) return;
    told(error);
  }
  isSearching.value = false;
}

/** The server does not search by status: the sessions of the hits tell. */
function needsSessions({ status }: Filters): boolean {
  return status !== null;
}

/** Read what the hits do not tell of their sessions. */
async function readSessions(hits: readonly Hit[]): Promise<void> {
  const { signal } = over;
  const wanted = [...new Set(hits.map((hit) => hit.session))].filter((id) => !known.peek().has(id));
  if (wanted.length === 0) return;
  const rows = await Promise.all(
    wanted.map(async (id): Promise<[string, Row | null]> => {
      const info = await get<SessionInfo>(at(id), {}, signal).catch(() => null);
      return [id, info && rowOf(info)];
    }),
  );
  if (signal.aborted) return;
  known.value = new Map([...[...known.peek()].slice(-MOST_KNOWN), ...rows]);
}

/** The hits by session, in the order of the first hit of each. `listed`: what the list knows of a session. */
export function grouped(hits: readonly Hit[], filters: Filters, listed: (id: string) => Row | undefined): Group[] {
  const groups = new Map<string, { id: string; title: string; row: Row | null; hits: Hit[] }>();
  for (const hit of hits) {
    const group = groups.get(hit.session);
    if (group) {
      group.hits.push(hit);
      continue;
    }
    const row = listed(hit.session) ?? known.value.get(hit.session) ?? null;
    // The server does not search by status, nor by cost, which is not known of every row.
    if (row && !matches({ ...row, at: Date.parse(hit.at) }, { ...filters, min_cost: null })) continue;
    groups.set(hit.session, { id: hit.session, title: row?.title ?? hit.title ?? hit.session, row, hits: [hit] });
  }
  return [...groups.values()];
}
