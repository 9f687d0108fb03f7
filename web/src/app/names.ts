// Short ids in addresses: what the server says they mean.
import { effect, signal } from "@preact/signals";
import { ApiError, get, isShare, me, part } from "../api/client";
import { idOf, isShortened, learn, place } from "./router";

interface NamedSession {
  id: string;
  short_id: string;
  title: string | null;
}

/** An address that fits several sessions, or only a subagent or a fork. */
export interface Ambiguous {
  name: string;
  why: string;
  sessions: NamedSession[];
}

export const ambiguous = signal<Ambiguous | null>(null);

const asked = new Set<string>();

async function ask(name: string): Promise<void> {
  if (asked.has(name)) return;
  asked.add(name);
  try {
    const found = await get<NamedSession>(`/names/${part(name)}`);
    learn(name, found.id, found.short_id);
  } catch (error) {
    asked.delete(name);
    if (error instanceof ApiError && error.code === "ambiguous_id") {
      ambiguous.value = { name, why: error.message, sessions: (error.problem.sessions as NamedSession[]) ?? [] };
    } else if (idOf(name) === null) {
      learn(name, name, name); // whoever asks for the session of this id says what is wrong
    }
  }
}

effect(() => {
  const { view, id, name, query } = place.value;
  if (!me.value || isShare()) return;
  if (ambiguous.peek()?.name !== name) ambiguous.value = null;
  if (name !== null && (id === null || !isShortened(id))) void ask(name);
  if (view !== "compare") return;
  for (const side of ["a", "b"]) {
    const text = query.get(side);
    if (text && idOf(text) === null) void ask(text);
  }
});
