// What the server answers, as far as the page reads it. docs/reference/http-api.md has all of it.

export interface Problem {
  code: string;
  title: string;
  detail: string;
  next?: string;
}

export interface Me {
  name: string;
  kind: "owner" | "token" | "share";
  scopes: string[];
  workspace: string | null;
  tags: string[];
  session: string | null;
  restores: boolean;
  read_only: boolean;
}

// -- sessions

export type Status = "new" | "running" | "waiting" | "completed" | "failed" | "interrupted" | "closed" | string;

export interface Head {
  branch: string;
  position: number;
}

export interface AgentBranch {
  head: Head;
  /** Messages that the agent wrote since the head of the session was moved away. */
  new: number;
  written_at: string | null;
}

export interface StateFrom {
  state: "working" | "waiting" | "idle" | "stale" | null;
  since: string;
}

export interface UsageSum {
  cost: string | null;
  input_tokens: number;
  output_tokens: number;
  total_tokens?: number;
  calls: number;
}

export interface SessionInfo {
  id: string;
  title: string | null;
  title_is_auto: boolean;
  preview: string;
  workspace: string | null;
  tags: string[];
  model: string | null;
  agent: string | null;
  parent: string | null;
  metadata: Record<string, unknown>;
  aliases: string[];
  created_at: string;
  updated_at: string;
  deleted_at: string | null;
  messages: number;
  user_turns: number;
  entries: number;
  bytes: number;
  head: Head;
  hash: string;
  forked_from: { session: string; head: Head } | null;
  status: Status;
  damaged: string | null;
  /** Where the agent stands that the session was imported from; null or left out: it came from none. */
  agent_branch?: AgentBranch | null;
  /** How it stands with its agent, from each moment on, if the agent writes nothing more. */
  states?: StateFrom[];
  usage?: UsageSum;
  subagents?: number;
  /** Forks and copies, and those of these. */
  forks?: number;
}

export interface Page<T> {
  data: T[];
  cursor: string | null;
}

// -- entries

export interface ToolLine {
  text: string;
  verb: string;
  subject: string;
  outcome: string;
  failed: boolean;
  family: string;
}

export interface Media {
  type: string;
  name: string;
  bytes?: number;
  data?: string;
  link?: string;
  url?: string;
}

export interface Block {
  kind: "text" | "thinking" | "call" | "result" | "media" | "data";
  text?: string;
  name?: string;
  call?: string;
  is_error?: boolean;
  is_json?: boolean;
  media?: Media;
  line?: ToolLine;
  html?: string;
}

export interface Entry {
  id: string;
  position: number;
  kind: string;
  at: string;
  hash: string;
  injected?: boolean;
  redacted?: number;
  annotations?: Record<string, unknown>;
  message?: unknown;
  speaker?: "user" | "assistant" | "tool" | "system" | "other" | "mark";
  prompt?: string;
  blocks?: Block[];
  line?: string;
  large?: { link: string; bytes: number };
}

export interface EntryPage extends Page<Entry> {
  head: Head;
  damaged: { position: number; reason: string }[];
}

/** `branch.position`: an entry's id is where it stands. */
export function entryId(head: Head): string {
  return head.position < 0 ? "start" : `${head.branch}.${head.position}`;
}

// -- the list of sessions: what it can be filtered by, what is found, and what changes

export interface FacetValue {
  value: string;
  sessions: number;
  workspace?: string;
}

export interface Facets {
  projects: FacetValue[];
  agents: FacetValue[];
  models: FacetValue[];
  tags: FacetValue[];
  statuses: FacetValue[];
}

export interface Hit {
  session: string;
  title: string | null;
  entry_id: string;
  position: number;
  on_path: boolean;
  role: string;
  at: string;
  snippet: string;
  /** Places in `snippet`, in Unicode code points. */
  marks: [number, number][];
  in_tool: boolean;
  copies: number;
}

export interface Change {
  kind: "created" | "changed" | "deleted";
  session: string;
  at: string;
  head: Head;
  messages: number;
  status: Status;
  /** As a list with `usage=true` gives it; null: it is damaged, or was purged just now. */
  info: SessionInfo | null;
}

// -- usage

export interface UsageTotals {
  calls: number;
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  /** Of the calls whose cost is known. */
  cost: string;
  /** Calls whose cost is not known. */
  unpriced: number;
  /** Calls whose cost is estimated from list prices. */
  estimated: number;
}

export interface UsageGroup {
  group: string | null;
  totals: UsageTotals;
}

export interface UsageReport {
  by: string | null;
  totals: UsageTotals;
  groups: UsageGroup[];
  /** Groups that `limit` left out. */
  left_out: number;
}

export interface UsageRecord {
  number: number;
  at: string;
  model: string | null;
  source: string | null;
  entry: string | null;
  input_tokens: number;
  output_tokens: number;
  cost: string | null;
  estimated: boolean;
}

// -- going on elsewhere

export interface ResumeView {
  command: string | null;
  directory: string | null;
  note: string;
  agents: { agent: string; command: string }[];
}

export interface Share {
  id: string;
  session: string;
  /** The entry up to which it is shared; null: live. */
  head: string | null;
  live: boolean;
  redact: boolean;
  created_at: string;
  expires_at: string | null;
  expired: boolean;
}

/** A place of a path that is worth going to. */
export interface OutlineItem {
  id: string;
  position: number;
  kind: "prompt" | "compaction" | "checkpoint" | "error" | string;
  at: string;
  text: string;
  snapshot?: string;
  /** Of a checkpoint that an agent set by itself: the prompt at which it did. */
  label?: string;
}
