// Up to where each session was read in this browser, by its position. The oldest are forgotten.
import { kept } from "../app/state";

const MOST = 500;

/** Positions of the last entries that were seen, by session; the newest visit is the last one. */
export const seen = kept<Record<string, number>>("read", {});

export function lastSeen(id: string): number | null {
  return Object.hasOwn(seen.peek(), id) ? seen.peek()[id]! : null;
}

export function see(id: string, position: number): void {
  const { [id]: before, ...others } = seen.peek();
  if (before === position) return;
  const rest = Object.entries(others).slice(1 - MOST);
  seen.value = Object.fromEntries([...rest, [id, position]]);
}
