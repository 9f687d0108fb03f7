// Trees of sessions, moves in them, paths that are compared, and files of snapshots, as the server tells them.
import type { AgentBranch, Head, OutlineItem } from "./types";

export interface Branch {
  id: string;
  session: string | null;
  parent: Head | null;
  first: number;
  last: number;
}

export interface Checkpoint {
  name: string;
  session: string;
  head: Head;
  created_at: string;
  snapshot: string | null;
}

export interface Tree {
  session: string;
  branches: Branch[];
  heads: Record<string, Head>;
  forks: Record<string, { session: string; head: Head }>;
  checkpoints: Checkpoint[];
  /** Subagents, each with the session that started it. */
  children: Record<string, string>;
}

export interface Outline {
  data: OutlineItem[];
  entries: number;
  head: Head;
}

export interface Move {
  number: number;
  kind: string;
  at: string;
  came_from: Head;
  went_to: Head;
  next: "undo" | "redo" | null;
  root: string | null;
}

export interface FileChange {
  path: string;
  verb: "create" | "overwrite" | "delete" | "mode";
  kind: "file" | "link" | "directory";
  size: number;
  old_size: number;
  conflict: boolean;
}

/** What a restore did; of a dry run: what it would do. */
export interface Restored {
  id: string | null;
  dry_run: boolean;
  snapshot: string;
  root: string;
  changes: FileChange[];
  conflicts: string[];
  kept: { path: string; reason: string }[];
  failed: { path: string; reason: string }[];
}

export interface Moved {
  head: Head;
  /** Where the agent stands, if that is elsewhere: only Clew's view moves. */
  agent_branch?: AgentBranch;
  /** The command that continues from `head` in the agent. */
  resume?: string;
  files?: Restored | null;
}

export interface ComparedPath {
  session: string;
  title: string | null;
  head: Head;
  shared: string | null;
  entries_after: number;
  snapshot: string | null;
}

export interface Comparison {
  a: ComparedPath;
  b: ComparedPath;
  common: { position: number; id: string | null; entries: number };
  same: boolean;
}

export interface Snapshot {
  id: string;
  kind: string;
  root: string;
  tree: string;
  created_at: string;
  files: number;
  links: number;
  directories: number;
  bytes: number;
  skipped: { path: string; reason: string }[];
}

export interface ListedFile {
  path: string;
  kind: "file" | "link" | "directory";
  size: number;
  executable: boolean;
  hash: string;
  url: string | null;
}

export interface FileDiff {
  path: string;
  status: "added" | "removed" | "modified" | "mode" | "type" | "renamed" | "unrecorded";
  old_path: string | null;
  old_size: number | null;
  size: number | null;
  text: string | null;
}

export interface FileVersion {
  checkpoint: string;
  position: number;
  at: string;
  verb: "created" | "changed" | "deleted";
  size: number | null;
  hash: string | null;
}

/** The place that an id of an entry names; null: it is no id of an entry. */
export function headOf(id: string): Head | null {
  const dot = id.lastIndexOf(".");
  const position = dot > 0 ? Number(id.slice(dot + 1)) : NaN;
  return Number.isInteger(position) && position >= 0 ? { branch: id.slice(0, dot), position } : null;
}
