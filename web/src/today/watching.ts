// The newest sessions, whatever the list beside them is filtered by: which work, and which wait for you.
import { computed, effect, signal, untracked } from "@preact/signals";
import { onChanges } from "../api/changes";
import { isShare, me } from "../api/client";
import { go, place, to } from "../app/router";
import { kept, waiting } from "../app/state";
import { toast } from "../app/toast";
import { clock } from "../sessions/clock";
import { SessionList } from "../sessions/list";
import type { Row } from "../sessions/rows";
import { type State, stateOf } from "../sessions/states";

const ALL = {
  project: null,
  agent: null,
  model: null,
  status: null,
  tag: [],
  since: null,
  until: null,
  min_cost: null,
  deleted: false,
};

const list = signal<SessionList | null>(null);

/** Newest activity first: one page, which holds whatever was written to within hours. */
export const newest = computed<readonly Row[]>(() => {
  void list.value?.version.value;
  return [...(list.value?.shown ?? [])]; // a copy: the list changes its own in place
});
export const isRead = computed(() => list.value?.state.value === "ready");

export function stateNow(row: Row): State | null {
  if (row.status === "running") return "working";
  return stateOf(row.states, clock.value)?.state ?? null;
}

export const working = computed(() => newest.value.filter((row) => stateNow(row) === "working"));
export const stale = computed(() => newest.value.filter((row) => stateNow(row) === "stale"));
/** Longest first: who waits longest comes first. */
export const waits = computed(() =>
  newest.value.filter((row) => stateNow(row) === "waiting").sort((one, other) => begun(one) - begun(other)),
);

export function begun(row: Row): number {
  return stateOf(row.states, clock.peek())?.since ?? row.at;
}

// Read while somebody is signed in who may see a list.
effect(() => {
  const isSignedIn = Boolean(me.value) && !isShare();
  return untracked(() => {
    if (!isSignedIn) return undefined;
    const made = new SessionList(ALL);
    list.value = made;
    const stop = onChanges({
      // Of one that is damaged or purged nothing is told: the beginning of the list is read again.
      onChange: (change) => (change.info === null ? void made.again() : made.onChange(change)),
      onStart: () => void made.again(),
    });
    void made.more();
    return () => {
      stop();
      made.close();
      list.value = null;
    };
  });
});

effect(() => void (waiting.value = waits.value.length));

// -- a notification of the browser, if it was asked for

/** Whether this browser says that an agent waits. */
export const notifies = kept("notify", false);
export const canNotify = "Notification" in window;

/** The permission is asked for when the setting is switched on, and never before. */
export async function setNotifies(wanted: boolean): Promise<void> {
  if (!wanted || !canNotify) {
    notifies.value = false;
    return;
  }
  notifies.value = (await Notification.requestPermission()) === "granted";
  if (!notifies.value) toast("This browser does not allow notifications of this page. Allow them in its settings for this site.");
}

let known: Map<string, number> | null = null;

effect(() => {
  const now = waits.value;
  if (!isRead.value) {
    known = null;
    return;
  }
  const before = known;
  known = new Map(now.map((row) => [row.id, begun(row)]));
  if (before === null || !notifies.peek() || !canNotify || Notification.permission !== "granted") return;
  for (const row of now) {
    if (before.get(row.id) === begun(row)) continue;
    if (!document.hidden && place.peek().id === row.id) continue; // it is being looked at
    tell(row);
  }
});

function tell(row: Row): void {
  const shown = new Notification(row.title, { body: `${row.agent ?? "Its agent"} waits for you`, tag: `clew ${row.id}` });
  shown.onclick = () => {
    window.focus();
    go(to.session(row.id));
    shown.close();
  };
}
