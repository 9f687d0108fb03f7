// The sessions: search, filters, the list or what was found, and the way to the trash.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { onChanges } from "../api/changes";
import { get } from "../api/client";
import { entryId } from "../api/types";
import { useCommands } from "../app/commands";
import { go, place, to } from "../app/router";
import { current, mayWrite, showsSidebar } from "../app/state";
import { lazy } from "../parts/lazy";
import { listed, renaming, star, type Target, tagging, trash, withTarget } from "./actions";
import { FilterBar, MENUS, openMenu } from "./FilterBar";
import { filters, isFiltered, NO_FILTER, setFilter, words } from "./filters";
import { SessionList } from "./list";
import { keyOf } from "./rows";
import { SearchResults } from "./SearchResults";
import { found, isSearching, search } from "./search";
import { look, lookAtAll } from "./seen";
import { SessionRow } from "./SessionRow";
import { VirtualList } from "./VirtualList";
import "./sessions.css";

const TagDialog = lazy(() => import("./TagDialog").then((found) => found.TagDialog));

export function Sidebar(): JSX.Element {
  const isBusy = useLists() || isSearching.value;
  useSeen();
  useCare();
  useSessionCommands();
  const list = listed.value;
  const isTrash = filters.value.deleted;
  return (
    <>
      <nav class="sidebar sessions" aria-label="Sessions">
        {isTrash ? (
          <div class="sessions-head">
            <h2>Trash</h2>
            <a href={to.home({ deleted: null })}>Back to the sessions</a>
          </div>
        ) : (
          <SearchField />
        )}
        <FilterBar />
        <div class={isBusy ? "sessions-busy is-busy" : "sessions-busy"} />
        {words.value !== "" && !isTrash ? <SearchResults list={list} words={words.value} /> : list && <List list={list} />}
        {!isTrash && (
          <footer class="sessions-foot">
            <a href={to.home({ deleted: "true", q: null })}>Trash</a>
            <button type="button" class="quiet" onClick={lookAtAll}>
              Mark all as read
            </button>
          </footer>
        )}
      </nav>
      {/* Not inside: where the list is hidden, the dialog is not. */}
      {tagging.value && <TagDialog key={tagging.value.id} target={tagging.value} onClose={() => void (tagging.value = null)} />}
    </>
  );
}

/** One list for each set of filters. The one before is shown until there is something to show instead. */
function useLists(): boolean {
  const asked = filters.value;
  const isReading = useSignal(false);
  useEffect(() => {
    const made = new SessionList(asked);
    isReading.value = true;
    let isShown = false;
    const show = () => {
      if (isShown) return;
      isShown = true;
      listed.peek()?.close();
      listed.value = made;
    };
    if (listed.peek() === null) show();
    const stop = onChanges({ onChange: (change) => made.onChange(change), onStart: () => void made.again() });
    let isOver = false;
    made.more().finally(() => {
      if (isOver) return;
      show();
      isReading.value = false;
    });
    return () => {
      isOver = true;
      stop();
      if (!isShown) made.close();
    };
  }, [asked]);
  useEffect(
    () => () => {
      listed.peek()?.close();
      listed.value = null;
    },
    [],
  );
  useEffect(() => void search(filters.value.deleted ? "" : words.value, filters.value), [words.value, filters.value]);
  return isReading.value;
}

/** Milliseconds between two looks at whether the workers of running sessions are alive. */
const CARE = 60_000;

/** A worker that was killed tells nobody: the server finds out when it is asked. */
function useCare(): void {
  useEffect(() => {
    const ask = () => {
      const runs = listed.peek()?.shown.some((row) => row.status === "running");
      if (runs && !document.hidden) get("/interrupted", { limit: 1 }).catch(() => undefined);
    };
    const timer = setInterval(ask, CARE);
    return () => clearInterval(timer);
  }, []);
  const isRead = listed.value?.state.value === "ready";
  useEffect(() => {
    if (isRead) get("/interrupted", { limit: 1 }).catch(() => undefined);
  }, [isRead]);
}

/** What is open, in a tab that is in front, is being looked at. */
function useSeen(): void {
  const shown = current.value;
  useEffect(() => {
    if (!shown) return;
    const seen = () => {
      if (!document.hidden) look(shown.id, entryId(shown.head));
    };
    seen();
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  }, [shown]);
}

function useSessionCommands(): void {
  const step = (by: number) => {
    if (words.peek() !== "" && !filters.peek().deleted) {
      const hits = [...document.querySelectorAll<HTMLAnchorElement>("#found a.sessions-hit")];
      const here = hits.findIndex((one) => one.hasAttribute("aria-current"));
      const hit = hits[here < 0 ? 0 : here + by];
      hit?.scrollIntoView({ block: "nearest" });
      hit?.click();
      return;
    }
    const rows = listed.peek()?.shown ?? [];
    const at = rows.findIndex((row) => row.id === place.peek().id);
    const next = rows[at < 0 ? 0 : at + by];
    if (!next || next.isDeleted) return;
    go(to.session(next.id));
    focusRow(keyOf(next));
  };
  const onTarget = (act: (one: Target) => void) => () => {
    if (mayWrite.peek()) withTarget(act);
  };
  const group = "Sessions";
  useCommands(() => [
    { id: "search", title: "Search in all sessions", group, keys: ["/", "g /"], run: focusSearch },
    { id: "next-session", title: "Next session, or next hit", group, keys: ["]"], run: () => step(1), inPalette: false },
    { id: "previous-session", title: "Previous session, or previous hit", group, keys: ["["], run: () => step(-1), inPalette: false },
    { id: "star", title: "Star the session, or take its star away", group, keys: ["."], run: onTarget((one) => void star(one)) },
    { id: "rename", title: "Rename the session", group, keys: ["m"], run: onTarget((one) => inList(() => void (renaming.value = one.id))) },
    { id: "tags", title: "Tags of the session", group, keys: ["l"], run: onTarget((one) => void (tagging.value = one)) },
    { id: "trash", title: "Move the session to the trash", group, keys: ["#"], run: onTarget((one) => void trash(one)) },
    { id: "show-trash", title: "Show the trash", group, keys: ["g t"], run: () => go(to.home({ deleted: "true", q: null })) },
    { id: "starred", title: "Show starred sessions", group, keys: ["g ."], run: () => setFilter({ tag: "starred", deleted: null }) },
    { id: "clear-filters", title: "Show all sessions, without filters", group, run: () => setFilter({ ...NO_FILTER, q: null, deleted: null }) },
    { id: "mark-read", title: "Mark all sessions as read", group, run: lookAtAll },
    ...MENUS.map(({ name, title }) => ({
      id: `filter-${name}`,
      title: `Filter sessions by ${title.toLowerCase()}`,
      group,
      run: () => inList(() => openMenu(name)),
    })),
  ]);
}

/** The focus goes along if it is in the list: keys act on the row that has it. */
function focusRow(key: string): void {
  if (!document.activeElement?.closest("#list")) return;
  requestAnimationFrame(() => document.querySelector<HTMLElement>(`#list li[data-key="${CSS.escape(key)}"] a`)?.focus({ preventScroll: true }));
}

/** Show the list, and then do something in it. Where there is no room for two things, it is a view of its own. */
function inList(act: () => void): void {
  const isElsewhere = place.peek().view !== "home" && matchMedia("(max-width: 48rem)").matches;
  // Where the list is shown already, nothing that is typed next may get lost.
  if (showsSidebar.peek() && !isElsewhere) return act();
  showsSidebar.value = true;
  if (isElsewhere) go(to.home());
  requestAnimationFrame(act);
}

function focusSearch(): void {
  inList(() => {
    const field = document.getElementById("search") as HTMLInputElement | null;
    field?.focus();
    field?.select();
  });
}

/** Milliseconds after a letter, until it is searched. */
const PAUSE = 60;

function firstHit(): HTMLAnchorElement | null {
  return (
    document.querySelector<HTMLAnchorElement>("#found a.sessions-hit") ??
    document.querySelector<HTMLAnchorElement>("#found a, #list a")
  );
}

function SearchField(): JSX.Element {
  const [text, setText] = useState(words.value);
  const timer = useRef(0);
  const sent = useRef(words.value);
  // Another address has other words; what is being typed is not to be taken away by its own address.
  useEffect(() => {
    if (words.value !== sent.current) setText(words.value);
    sent.current = words.value;
  }, [words.value]);
  // Who presses Enter before the answer is there means its first hit.
  const wanted = useRef<string | null>(null);
  const open = () => firstHit()?.click();
  useEffect(() => {
    if (wanted.current === null || found.value?.words !== wanted.current) return;
    wanted.current = null;
    requestAnimationFrame(open);
  }, [found.value]);
  const type = (typed: string) => {
    setText(typed);
    wanted.current = null;
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      sent.current = typed.trim();
      if (sent.current !== words.peek()) setFilter({ q: sent.current || null });
    }, PAUSE);
  };
  return (
    <div class="sessions-head" role="search">
      <input
        id="search"
        type="search"
        placeholder="Search in all sessions"
        aria-label="Search in all sessions"
        aria-keyshortcuts="/"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            if (text) type("");
            else event.currentTarget.blur();
          } else if (event.key === "ArrowDown") {
            event.preventDefault();
            firstHit()?.focus();
          } else if (event.key === "Enter" && text.trim() !== "") {
            if (found.peek()?.words === text.trim()) open();
            else wanted.current = text.trim();
          }
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  );
}

function List({ list }: { list: SessionList }): JSX.Element {
  const version = list.version.value;
  const rows = list.shown;
  const wanted = useSignal<string | null>(null);
  wanted.value = place.value.id;
  if (rows.length === 0) return <Empty list={list} />;
  return (
    <div class="sessions-body" onPointerMove={() => list.hold()}>
      <VirtualList
        id="list"
        label={list.filters.deleted ? "Trash" : "Sessions"}
        items={rows}
        version={version}
        keyOf={keyOf}
        draw={(row) => <SessionRow row={row} list={list} />}
        hasMore={list.hasMore}
        onEnd={() => void list.more()}
        wanted={wanted.value}
      />
    </div>
  );
}

function Empty({ list }: { list: SessionList }): JSX.Element {
  const state = list.state.value;
  return (
    <div class="sessions-body">
      <ul id="list" class="unseen" aria-label="Sessions" />
      <div class="sessions-empty" role="status">
        {state === "loading" && <p class="unseen">Reading the sessions…</p>}
        {state === "failed" && (
          <>
            <p>The sessions could not be read.</p>
            <button type="button" onClick={() => void list.more()}>
              Try again
            </button>
          </>
        )}
        {state === "ready" && list.filters.deleted && <p>The trash is empty.</p>}
        {state === "ready" && !list.filters.deleted && isFiltered.value && (
          <>
            <p>No session is like that.</p>
            <button type="button" onClick={() => setFilter(NO_FILTER)}>
              Clear the filters
            </button>
          </>
        )}
        {state === "ready" && !list.filters.deleted && !isFiltered.value && (
          <>
            <p>There is no session yet.</p>
            <p>
              <code>clew import --scan</code> brings those of your agents.
            </p>
          </>
        )}
      </div>
    </div>
  );
}
