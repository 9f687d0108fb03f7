// What checkpoints go by. Those that an agent sets by itself have names that say nothing to people.
import type { OutlineItem } from "../api/types";

/** The small mark of a checkpoint that an agent set, as `clew.core.log.labels` has it; null: its name says something. */
export function agentMark(name: string): string | null {
  if (!name.startsWith("file-history:")) return null;
  return name.endsWith(":outside") ? "other files" : "files";
}

/** The name of a checkpoint, or the prompt at which an agent set it. */
export function checkpointTitle(item: OutlineItem): string {
  return item.label ?? agentMark(item.text) ?? item.text;
}
