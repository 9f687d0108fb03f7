// What several parts of the page share.
import { computed, effect, signal } from "@preact/signals";
import { me } from "../api/client";
import type { SessionInfo } from "../api/types";

/** The session that is shown, as the server last told it; null: none, or not read yet. */
export const current = signal<SessionInfo | null>(null);
/** The id of the entry under the cursor in the transcript; null: none. */
export const cursor = signal<string | null>(null);

/** What came in the session that is shown, and was not seen yet: the title of the tab counts it. */
export const unseen = signal(0);
/** How many sessions wait for a word of their user: the title of the tab says so. */
export const waiting = signal(0);

/** What the tab is called: the session that is shown, and how many entries and agents wait for a look. */
export function titled(): string {
  const name = current.value === null ? "Clew" : `${current.value.title ?? current.value.id} · Clew`;
  const waits = waiting.value ? `${waiting.value} waiting · ` : "";
  return `${unseen.value ? `(${unseen.value}) ` : ""}${waits}${name}`;
}

effect(() => void (document.title = titled()));

/** Whether the caller may change sessions, read files, and do what the owner may. */
export const mayWrite = computed(() => may("write") && !me.value?.read_only);
export const mayFiles = computed(() => may("files"));
export const mayAdmin = computed(() => may("admin"));
/** Whether files of the server's machine may be restored, from where the page is open. */
export const mayRestore = computed(() => me.value?.restores === true);

function may(scope: string): boolean {
  const who = me.value;
  return !!who && who.kind !== "share" && who.scopes.includes(scope);
}

// -- settings of this browser: nothing secret, and nothing that is needed

export function kept<T>(name: string, usual: T) {
  let found = usual;
  try {
    const text = localStorage.getItem(`clew.${name}`);
    if (text !== null) found = JSON.parse(text) as T;
  } catch {
    // no storage, or somebody wrote into it
  }
  const made = signal<T>(found);
  made.subscribe((value) => {
    if (value === found) return;
    found = value;
    try {
      localStorage.setItem(`clew.${name}`, JSON.stringify(value));
    } catch {
      // then it is forgotten with the tab
    }
  });
  return made;
}

export const theme = kept<"auto" | "light" | "dark">("theme", "auto");
export const showsSidebar = kept("sidebar", true);
/** Where the panel lies over the transcript, it is open only when asked for. */
const overlays = window.matchMedia("(max-width: 75rem)");
export const isNarrow = signal(overlays.matches);
overlays.addEventListener("change", () => void (isNarrow.value = overlays.matches));
const panelBeside = kept("panel", true);
const panelAbove = signal(false);
export const showsPanel = {
  get value(): boolean {
    return isNarrow.value ? panelAbove.value : panelBeside.value;
  },
  set value(shown: boolean) {
    (isNarrow.peek() ? panelAbove : panelBeside).value = shown;
  },
};
export const showsThinking = kept("thinking", true);
export const showsTools = kept("tools", true);

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});
