// Which sessions went on since they were looked at. Kept in this browser, of the last few hundred.
import { signal } from "@preact/signals";
import type { Row } from "./rows";

const NAME = "clew.seen";
const MOST = 500;

interface Seen {
  /** Milliseconds: what is older counts as seen. */
  from: number;
  /** Session and the entry at its end when it was looked at; the one that was looked at last is the last. */
  heads: Map<string, string>;
}

function stored(): Seen | null {
  try {
    const { from, heads } = JSON.parse(localStorage.getItem(NAME)!) as { from: number; heads: [string, string][] };
    return typeof from === "number" ? { from, heads: new Map(heads) } : null;
  } catch {
    return null; // no storage, or somebody wrote into it
  }
}

const seen = signal<Seen>(stored() ?? { from: Date.now(), heads: new Map() });

function keep(value: Seen): void {
  seen.value = value;
  try {
    localStorage.setItem(NAME, JSON.stringify({ from: value.from, heads: [...value.heads] }));
  } catch {
    // then it is forgotten with the tab
  }
}

// What was looked at in another tab was looked at.
window.addEventListener("storage", (event) => {
  if (event.key !== NAME) return;
  const found = stored();
  if (found) seen.value = found;
});

export function isUnread(row: Row): boolean {
  const { from, heads } = seen.value;
  const head = heads.get(row.id);
  return row.messages > 0 && (head === undefined ? row.at > from : head !== row.head);
}

/** Somebody looks at the end of this session. */
export function look(id: string, head: string): void {
  const { from, heads } = seen.peek();
  if (heads.get(id) === head) return;
  const others = [...heads].filter(([one]) => one !== id);
  keep({ from, heads: new Map([...others.slice(1 - MOST), [id, head]]) });
}

export function lookAtAll(): void {
  keep({ from: Date.now(), heads: new Map() });
}
