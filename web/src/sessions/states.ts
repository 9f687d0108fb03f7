// How a session stands with its agent. The server judges; the page goes by the clock from state to state.
import type { SessionInfo } from "../api/types";

export type State = "working" | "waiting" | "idle" | "stale";

export interface Since {
  /** Null: the files of the agent do not tell. */
  state: State | null;
  /** Milliseconds. */
  since: number;
}

const NONE: readonly Since[] = [];

export function statesOf(info: SessionInfo): readonly Since[] {
  if (!info.states?.length) return NONE;
  return info.states.map(({ state, since }) => ({ state, since: Date.parse(since) }));
}

/** The present state, with its beginning; null: there is none. */
export function stateOf(states: readonly Since[], now: number): Since | null {
  return states.findLast((one) => one.since <= now) ?? states[0] ?? null;
}

/** "2 new on the agent's branch"; empty: nothing is new there. */
export function newsOf(count: number): string {
  return count > 0 ? `${count} new on the agent's branch` : "";
}
