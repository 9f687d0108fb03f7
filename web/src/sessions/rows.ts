// Sessions as the list keeps them: small, because there may be a hundred thousand of them.
import { entryId, type SessionInfo } from "../api/types";
import { type Since, statesOf } from "./states";

export const STAR = "starred";
const LONGEST = 160;

export interface Row {
  id: string;
  title: string;
  isAuto: boolean;
  project: string;
  workspace: string | null;
  agent: string | null;
  model: string | null;
  tags: readonly string[];
  status: string;
  parent: string | null;
  /** The session that it is a fork or a copy of. */
  base: string | null;
  kind: "fork" | "copy" | null;
  /** Milliseconds: its last activity. Of a session in the trash: when it was deleted. */
  at: number;
  /** Milliseconds; by this it is sorted: the last activity of it and of the forks that are folded into it. */
  lead: number;
  created: number;
  isDeleted: boolean;
  messages: number;
  head: string;
  isDamaged: boolean;
  /** Dollars, with subagents; null: not known. */
  cost: number | null;
  tokens: number;
  subagents: number;
  forks: number;
  states: readonly Since[];
  /** Messages that are new on the branch of its agent. */
  news: number;
  /** The last thing that a person said. */
  prompt: string;
}

const known = new Map<string, string>();

/** The same text once: thousands of sessions have the same project, agent and model. */
function shared<T extends string | null>(text: T): T {
  if (text === null) return text;
  const found = known.get(text);
  if (found !== undefined) return found as T;
  if (known.size < 5000) known.set(text, text);
  return text;
}

/** The name of a workspace: the last part of its path, whichever system it is of. */
export function projectOf(workspace: string | null): string {
  return (workspace ?? "").replaceAll("\\", "/").replace(/\/+$/, "").split("/").pop()!;
}

/** Milliseconds, and parts of them: the server counts microseconds, and sorts by them. */
function momentOf(text: string): number {
  return Date.parse(text) + Number(/\.\d{3}(\d{1,3})/.exec(text)?.[1]?.padEnd(3, "0") ?? 0) / 1000;
}

/** As the server sorts: newest first, then by id. */
export function isBefore(one: Row, other: Row): boolean {
  return one.lead === other.lead ? one.id < other.id : one.lead > other.lead;
}

const NO_TAGS: readonly string[] = [];

/** `before`: what was known of it; an answer without usage says nothing of its usage. */
export function rowOf(info: SessionInfo, before?: Row): Row {
  const { usage } = info;
  const at = momentOf(info.deleted_at ?? info.updated_at);
  const copied = info.metadata["copied_from"];
  const kind = info.forked_from ? "fork" : typeof copied === "string" && copied !== "" ? "copy" : null;
  return {
    id: info.id,
    title: (info.title || info.preview || info.id).slice(0, LONGEST),
    isAuto: info.title_is_auto || !info.title,
    project: shared(projectOf(info.workspace)),
    workspace: shared(info.workspace),
    agent: shared(info.agent),
    model: shared(info.model),
    tags: info.tags.length ? info.tags : NO_TAGS,
    status: shared(info.status),
    parent: info.parent,
    base: kind === "fork" ? info.forked_from!.session : kind === "copy" ? (copied as string) : null,
    kind,
    at,
    lead: info.deleted_at === null ? Math.max(at, before?.lead ?? at) : at,
    created: Date.parse(info.created_at),
    isDeleted: info.deleted_at !== null,
    messages: info.messages,
    head: entryId(info.head),
    isDamaged: info.damaged !== null,
    cost: usage === undefined ? (before?.cost ?? null) : usage.cost === null ? null : Number(usage.cost),
    tokens: usage === undefined ? (before?.tokens ?? 0) : (usage.total_tokens ?? 0),
    subagents: info.subagents ?? before?.subagents ?? 0,
    forks: info.forks ?? before?.forks ?? 0,
    states: statesOf(info),
    news: info.agent_branch?.new ?? 0,
    prompt: info.preview.slice(0, LONGEST),
  };
}

/** Names a row among others: the trash may hold several sessions that had one id. */
export function keyOf(row: Row): string {
  return row.isDeleted ? `${row.id} ${row.at}` : row.id;
}

export function isStarred(row: { tags: readonly string[] }): boolean {
  return row.tags.includes(STAR);
}
