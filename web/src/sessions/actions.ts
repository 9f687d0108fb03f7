// What can be done with a session of the list.
import { effect, signal, untracked } from "@preact/signals";
import { get, patch, post, remove, session as at } from "../api/client";
import type { Page, SessionInfo } from "../api/types";
import { go, place, to } from "../app/router";
import { current } from "../app/state";
import { toast, told } from "../app/toast";
import { plural } from "../parts/numbers";
import type { SessionList } from "./list";
import { isStarred, STAR } from "./rows";

/** Enough of a session to act on it. */
export interface Target {
  id: string;
  title: string | null;
  tags: readonly string[];
  subagents?: number;
}

/** The list that is shown. */
export const listed = signal<SessionList | null>(null);
/** The session whose title, or whose tags, are being edited. */
export const renaming = signal<string | null>(null);
export const tagging = signal<Target | null>(null);

/** Take over what the server answered, before the stream tells the same. */
function changed(info: SessionInfo): void {
  listed.peek()?.tell(info);
  if (current.peek()?.id === info.id) current.value = { ...current.peek(), ...info };
}

async function change(id: string, changes: Partial<Pick<SessionInfo, "title" | "tags">>): Promise<void> {
  try {
    changed(await patch<SessionInfo>(at(id), changes));
  } catch (error) {
    told(error);
  }
}

export function star(target: Target): Promise<void> {
  const others = target.tags.filter((one) => one !== STAR);
  return change(target.id, { tags: isStarred(target) ? others : [...others, STAR] });
}

export function setTags(id: string, tags: readonly string[]): Promise<void> {
  return change(id, { tags: [...tags] });
}

/** Without a title, the first words of the user are shown. */
export function rename(id: string, title: string): Promise<void> {
  return change(id, { title: title.trim() || null });
}

/** Of a session, all of them: the nearest first. */
async function subagentsOf(id: string): Promise<string[]> {
  const found: string[] = [];
  const waiting = [id];
  const seen = new Set(waiting);
  while (waiting.length > 0) {
    const parent = waiting.shift()!;
    let cursor: string | null = null;
    do {
      const page: Page<SessionInfo> = await get("/sessions", { parent, limit: 200, cursor });
      for (const { id: child } of page.data) {
        if (seen.has(child)) continue;
        seen.add(child);
        found.push(child);
        waiting.push(child);
      }
      cursor = page.cursor;
    } while (cursor !== null);
  }
  return found;
}

/** Move a session to the trash. Its subagents go along, and come back with it. */
export async function trash(target: Target): Promise<void> {
  let along = 0;
  try {
    along = (await subagentsOf(target.id)).length;
    await remove(at(target.id));
  } catch (error) {
    return told(error);
  }
  const wasShown = place.peek().id === target.id;
  if (wasShown) go(to.home());
  toast(`Moved to the trash${along > 0 ? `, with ${plural(along, "subagent")}` : ""}.`, {
    title: "Undo",
    run: () => {
      restore(target.id).then((isDone) => isDone && wasShown && go(to.session(target.id)), told);
    },
  });
}

/** Bring a session back from the trash, and the subagents that are there too. */
export async function restore(id: string): Promise<boolean> {
  try {
    changed(await post<SessionInfo>(at(id, "/restore")));
    return true;
  } catch (error) {
    told(error);
    return false;
  }
}

/** The session that keys act on: the one in the list that has the focus, else the one that is shown. */
function target(): Target | null {
  const key = document.activeElement?.closest<HTMLElement>("#list li")?.dataset.key;
  const row = key === undefined ? undefined : listed.peek()?.find(key);
  return row ?? current.peek();
}

/** Do something with it. A session that was just opened may not be read yet: then as soon as it is. */
export function withTarget(act: (one: Target) => void): void {
  const now = target();
  const { id } = place.peek();
  if (now || id === null) {
    if (now) act(now);
    else toast("Choose a session first: open one, or go to its row in the list.");
    return;
  }
  const stop = effect(() => {
    const one = current.value;
    const isElsewhere = place.value.id !== id;
    if (!one && !isElsewhere) return;
    queueMicrotask(() => stop());
    if (one && !isElsewhere) untracked(() => act(one));
  });
}
