// What the panel knows of a session's tree: read when it is shown, and again when the session changes.
import { signal } from "@preact/signals";
import { get, session as at } from "../api/client";
import type { Outline, Tree } from "../api/trees";
import { entryId, type OutlineItem, type SessionInfo } from "../api/types";
import { leaves } from "./lanes";

/** So many branches, and relatives, are read at once; the others when they are unfolded. */
const EAGER = 12;

export class Family {
  readonly tree = signal<Tree | null>(null);
  /** Prompts, compactions and so on, by the ids of their entries. */
  readonly points = signal<ReadonlyMap<string, OutlineItem>>(new Map());
  /** Relatives, and subagents, as far as they were read. */
  readonly relatives = signal<ReadonlyMap<string, SessionInfo>>(new Map());
  private readonly over = new AbortController();
  private readonly read = new Set<string>();

  constructor(readonly id: string) {}

  stop(): void {
    this.over.abort();
  }

  async load(): Promise<void> {
    const [tree, outline] = await Promise.all([
      get<Tree>(at(this.id, "/tree"), {}, this.over.signal),
      get<Outline>(at(this.id, "/outline"), {}, this.over.signal),
    ]);
    this.tree.value = tree;
    this.add(outline);
    await Promise.all([
      ...leaves(tree).slice(0, EAGER).map((leaf) => this.loadBranch(entryId(leaf))),
      ...[...Object.keys(tree.heads), ...Object.keys(tree.children)]
        .filter((id) => id !== this.id && !this.relatives.peek().has(id))
        .slice(0, EAGER)
        .map((id) => this.loadRelative(id)),
    ]);
  }

  /** Read what is said on the way to the end of a branch. Texts are not worth an error: the branch is drawn without. */
  async loadBranch(leaf: string): Promise<void> {
    if (this.read.has(leaf)) return;
    this.read.add(leaf);
    try {
      this.add(await get<Outline>(at(this.id, "/outline"), { at: leaf }, this.over.signal));
    } catch {
      this.read.delete(leaf);
    }
  }

  private async loadRelative(id: string): Promise<void> {
    try {
      const found = await get<SessionInfo>(at(id), {}, this.over.signal);
      this.relatives.value = new Map(this.relatives.peek()).set(id, found);
    } catch {
      // in the trash, or not ours to see: then it is named by its id
    }
  }

  private add(outline: Outline): void {
    const points = new Map(this.points.peek());
    // Checkpoints are in the tree already.
    for (const one of outline.data) if (one.kind !== "checkpoint") points.set(one.id, one);
    this.points.value = points;
  }
}
