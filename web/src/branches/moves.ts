// Fork, rewind, undo, redo: at the entry that is chosen, of the session that is shown.
import { computed, signal } from "@preact/signals";
import { get, me, post, session as at } from "../api/client";
import { headOf, type Move, type Moved } from "../api/trees";
import { entryId, type Head, type Page, type SessionInfo } from "../api/types";
import { run } from "../app/commands";
import { go, place, to } from "../app/router";
import { current, cursor, mayWrite } from "../app/state";
import { toast, told } from "../app/toast";
import { plural } from "../parts/numbers";
import { START } from "../transcript/path";

/** The place that is meant by "here"; null: the end of the path. */
export const chosenPoint = computed<Head | null>(() => {
  const { hash, query } = place.value;
  return headOf(cursor.value ?? hash) ?? headOf(query.get("at") ?? "");
});

/** What the next undo, and the next redo, take back; null while it is not known. */
export const history = signal<{ undo: Move | null; redo: Move | null } | null>(null);

export async function readHistory(id: string): Promise<void> {
  const { data } = await get<Page<Move>>(at(id, "/moves"));
  const next = (what: string) => data.find((one) => one.next === what) ?? null;
  history.value = { undo: next("undo"), redo: next("redo") };
}

/** The entry to which the session is being moved from this page: the transcript may get it a moment later. */
export const movedTo = signal("");

/** The dialog that is open: what would happen is shown before it happens. `point` null: the end of the path. */
export type Asked = { kind: "rewind"; point: Head } | { kind: "fork"; point: Head | null } | { kind: "undo" | "redo"; plan: Moved };
export const asked = signal<Asked | null>(null);

/** Why nothing can be changed; undefined: it can. */
export const whyNotWrite = computed(() => {
  if (mayWrite.value) return undefined;
  return me.value?.read_only ? "This server only reads: it was started so." : "Your token only reads. Sign in with one that may write.";
});

/** The session that may be changed; null, and a word about it, if there is none. */
function changeable(): SessionInfo | null {
  const shown = current.peek();
  if (!shown) return null;
  if (whyNotWrite.peek() === undefined) return shown;
  toast(whyNotWrite.peek()!, undefined, true);
  return null;
}

/** Fork at the entry with the ring. Where the reader does not see one, the entry is named first. */
export async function forkHere(): Promise<void> {
  if (!changeable()) return;
  const point = chosenPoint.peek();
  if (isInSight(point)) await fork(point);
  else asked.value = { kind: "fork", point };
}

/** Whether the reader sees the ring on this entry, in the transcript or in the tree. */
function isInSight(point: Head | null): boolean {
  if (point === null || cursor.peek() !== entryId(point)) return false;
  if (document.activeElement?.closest("[role=tree]")) return true;
  const feed = document.getElementById("transcript");
  const row = feed?.querySelector(`[data-entry="${CSS.escape(entryId(point))}"]`);
  if (!feed || !row) return false;
  const [inside, around] = [row.getBoundingClientRect(), feed.getBoundingClientRect()];
  return inside.bottom > around.top && inside.top < around.bottom;
}

export async function fork(point: Head | null): Promise<void> {
  const shown = changeable();
  if (!shown) return;
  const made = await post<SessionInfo>(at(shown.id, "/fork"), point ? { at: point } : {});
  asked.value = null;
  go(to.session(made.id, { panel: place.peek().query.get("panel") }));
  toast(`Forked ${nameOf(point)}. You are in the fork; the first session stays as it was.`, {
    title: "Go back",
    run: () => go(to.session(shown.id)),
  });
}

/** Where a fork begins, in words. */
export function nameOf(point: Head | null): string {
  return point ? `at entry ${point.position}` : "at the end";
}

export function rewindHere(): void {
  const shown = changeable();
  const point = chosenPoint.peek();
  if (!shown) return;
  if (!point) toast("Choose the entry first that is to be the last one: click it, or press j and k.");
  else if (entryId(point) === entryId(shown.head)) toast("The session stands here already. Choose an earlier entry.");
  else asked.value = { kind: "rewind", point };
}

/** The end of the path after the last move that was made here; the stream tells of that move, too. */
let made: Promise<string | null> = Promise.resolve(null);

function moving(work: Promise<Moved>): Promise<Moved> {
  made = work.then(({ head }) => (head.position < 0 ? START : entryId(head)), () => null);
  return work;
}

/** Whether a path ends there because of what was done on this page, which was said already. */
export async function isOwnMove(tip: string): Promise<boolean> {
  if ((await made) !== tip) return false;
  made = Promise.resolve(null);
  return true;
}

export async function rewind(point: Head, files: boolean, onConflict: string): Promise<void> {
  const shown = changeable();
  if (!shown) return;
  const body = files ? { to: point, files: true, on_conflict: onConflict } : { to: point };
  const moved = await moving(post<Moved>(at(shown.id, "/rewind"), body));
  await moveDone(shown.id, moved, `Rewound to entry ${point.position}.`);
}

/** Undo or redo. If files move with it, that is shown first. */
export async function step(what: "undo" | "redo"): Promise<void> {
  const shown = changeable();
  if (!shown) return;
  const plan = await post<Moved>(at(shown.id, `/${what}`), { dry_run: true });
  if (plan.files) asked.value = { kind: what, plan };
  else await take(what);
}

export async function take(what: "undo" | "redo"): Promise<void> {
  const shown = changeable();
  if (!shown) return;
  const moved = await moving(post<Moved>(at(shown.id, `/${what}`)));
  const where = moved.head.position < 0 ? "at its beginning" : `at entry ${moved.head.position}`;
  const said = `${what === "undo" ? "Undone." : "Done again."} The session is ${where}.`;
  await moveDone(shown.id, moved, said, what === "undo" ? "redo" : "undo");
}

/** To where the agent stands, which has gone on since the session was rewound here. */
export async function toAgent(): Promise<void> {
  const shown = changeable();
  if (!shown) return;
  if (!shown.agent_branch) return toast("This session was not imported from an agent.");
  if (entryId(shown.agent_branch.head) === entryId(shown.head)) return toast("The session is with its agent already.");
  const moved = await post<Moved>(at(shown.id, "/follow"));
  await moveDone(shown.id, moved, "With the agent again.");
}

const TITLES = { undo: "Undo", redo: "Redo" };

async function moveDone(id: string, moved: Moved, said: string, back: "undo" | "redo" = "undo"): Promise<void> {
  asked.value = null;
  const hash = moved.head.position < 0 ? "" : entryId(moved.head);
  movedTo.value = hash === place.peek().hash ? "" : hash;
  go(to.here({ at: null }, hash), { replace: true });
  cursor.value = hash || null;
  const failed = moved.files?.failed.length ?? 0;
  const changed = moved.files?.changes.filter((one) => one.kind !== "directory").length ?? 0;
  const files = moved.files ? ` ${plural(changed, "file")} changed.` : "";
  const bad = failed ? ` ${plural(failed, "file")} could not be changed: ${moved.files!.failed[0]!.path}.` : "";
  toast(said + files + bad, { title: TITLES[back], run: () => run(back) }, failed > 0, `moves of ${id}`);
  current.value = await get<SessionInfo>(at(id));
}

export const tried = (work: Promise<void>): void => void work.catch(told);
