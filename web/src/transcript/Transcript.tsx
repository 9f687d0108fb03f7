// The transcript of a session: a feed of its entries, of which those near the window are drawn.
import { useSignal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Entry } from "../api/types";
import { AgentNews } from "../branches/AgentBranch";
import { useCommands } from "../app/commands";
import { go, place, to } from "../app/router";
import { current, cursor, showsThinking, showsTools, unseen } from "../app/state";
import { toast, told } from "../app/toast";
import { movedTo } from "../branches/moves";
import { copy } from "../parts/Copy";
import { EntryMenu } from "./EntryMenu";
import { Finder } from "./find";
import { FindBar } from "./FindBar";
import { Head } from "./Head";
import { positionOf } from "./path";
import { onlyPrompts, Reading } from "./Reading";
import { Row } from "./Row";
import "./transcript.css";

export function Transcript({ id, at }: { id: string; at: string | null }): JSX.Element {
  const reading = useMemo(() => new Reading(id, at), []);
  const finder = useMemo(() => new Finder(reading), []);
  const isFinding = useSignal(false);
  const menu = useSignal<{ entry: Entry; button: HTMLElement } | null>(null);
  useEffect(() => {
    const { hash } = place.peek();
    const arrive = () => {
      const position = positionOf(hash);
      if (position !== null && reading.path.get(position)?.id === hash) finder.visit(position);
    };
    reading.start(hash).then(arrive, (error: Error) => {
      reading.problem.value = error.message;
      told(error);
    });
    movedTo.value = ""; // a new transcript opens where the address says
    return () => {
      reading.close();
      unseen.value = 0;
    };
  }, []);
  useHash(reading, finder);
  useSignalEffect(() => finder.mark());
  useUnseen(reading);
  useTranscriptCommands(reading, finder, isFinding);
  const closeFind = () => {
    isFinding.value = false;
    finder.close();
    document.getElementById("transcript")?.focus({ preventScroll: true });
  };
  const onMenu = (entry: Entry, button: HTMLElement) => {
    menu.value = menu.value?.entry === entry ? null : { entry, button };
  };
  return (
    <div class="transcript">
      <Head reading={reading} onFind={() => void (isFinding.value = true)} />
      {isFinding.value && <FindBar finder={finder} onClose={closeFind} />}
      {reading.at !== null && (
        <p class="transcript-notice">
          You are reading another branch. <a href={to.session(reading.id)}>Back to the current one</a>
        </p>
      )}
      <AgentNews isElsewhere={reading.at !== null} />
      {(reading.path.over.value || reading.path.damage.value) && (
        <p class="transcript-notice transcript-bad" role="status">
          {reading.path.over.value || `This session is damaged: ${reading.path.damage.value}`}
        </p>
      )}
      <Feed reading={reading} finder={finder} onMenu={onMenu} />
      <Pill reading={reading} />
      <p class="unseen" role="status" aria-live="polite">
        {reading.news.value}
      </p>
      {menu.value && <EntryMenu {...menu.value} onClose={() => void (menu.value = null)} />}
    </div>
  );
}

interface FeedProps {
  reading: Reading;
  finder: Finder;
  onMenu: (entry: Entry, button: HTMLElement) => void;
}

function Feed({ reading, finder, onMenu }: FeedProps): JSX.Element {
  const { scroller, path } = reading;
  const feed = useRef<HTMLDivElement>(null);
  const rows = useRef<HTMLDivElement>(null);
  const isReady = reading.isReady.value;
  void scroller.version.value;
  const { first, last } = scroller.range.value;
  useLayoutEffect(() => {
    scroller.attach(feed.current, rows.current);
    return () => scroller.attach(null, null);
  }, []);
  // The rows are measured before anything is painted.
  useLayoutEffect(() => {
    keepFocus(feed.current!);
    scroller.settle();
    finder.mark();
  });
  const { heights } = scroller;
  const end = Math.min(last + 1, path.length);
  return (
    <div
      ref={feed}
      id="transcript"
      class="transcript-feed"
      role="feed"
      aria-label="Transcript"
      aria-busy={!isReady}
      tabIndex={0}
      onScroll={() => scroller.onScroll()}
      onKeyDown={(event) => {
        if (event.target !== event.currentTarget && !(event.target as Element).matches("article")) return;
        if (event.key === "Home") void reading.toEdge("first");
        else if (event.key === "End") void reading.toEdge("last");
        else return;
        event.preventDefault();
      }}
    >
      <div style={{ height: px(heights.top(first)) }} />
      <div ref={rows} class="transcript-rows">
        {drawn(reading, first, end, onMenu)}
      </div>
      <div style={{ height: px(Math.max(0, heights.total - heights.top(end))) }} />
      <Foot reading={reading} />
    </div>
  );
}

function drawn(reading: Reading, first: number, end: number, onMenu: FeedProps["onMenu"]): JSX.Element[] {
  const { heights } = reading.scroller;
  const found: JSX.Element[] = [];
  for (let at = first; at < end; at++) {
    const entry = reading.path.get(at);
    if (entry) {
      if (reading.isShown(at)) found.push(<Row key={entry.id} reading={reading} entry={entry} onMenu={onMenu} />);
      continue;
    }
    const from = at;
    while (at + 1 < end && !reading.path.get(at + 1)) at++;
    const height = heights.top(at + 1) - heights.top(from);
    if (height > 0) found.push(<div key={`waiting ${from}`} class="transcript-waiting" aria-hidden="true" style={{ height: px(height) }} />);
  }
  return found;
}

function px(length: number): string {
  return `${length}px`;
}

/** The focus is where the cursor is. If that row is not in the window, the feed has it, so that keys still work. */
function keepFocus(feed: HTMLElement): void {
  const wanted = cursor.peek();
  const focused = document.activeElement;
  if (focused !== document.body && focused !== feed && !focused?.matches(".transcript-row")) return;
  const row = wanted === null ? null : feed.querySelector<HTMLElement>(`[data-entry="${CSS.escape(wanted)}"]`);
  if (row && focused !== row) row.focus({ preventScroll: true });
  else if (!row && focused !== feed && wanted !== null) feed.focus({ preventScroll: true });
}

const STATES: Record<string, string> = {
  running: "Running…",
  waiting: "Waiting for an answer",
  failed: "The run failed",
  interrupted: "The run was interrupted",
};

function Foot({ reading }: { reading: Reading }): JSX.Element {
  const { path } = reading;
  void reading.scroller.version.value; // the path may be empty no more
  const status = path.status.value ?? current.value?.status ?? "";
  const said = !reading.isReady.value ? "Loading…" : reading.at === null ? STATES[status] : undefined;
  return (
    <p class={`transcript-foot transcript-is-${status}`}>
      {reading.problem.value || (reading.isReady.value && path.length === 0 ? "Nothing was said yet." : said)}
    </p>
  );
}

function Pill({ reading }: { reading: Reading }): JSX.Element | null {
  if (!reading.isReady.value || reading.scroller.isAtEnd.value) return null;
  const count = reading.fresh.value;
  return (
    <button type="button" class={count ? "transcript-pill transcript-pill-new" : "transcript-pill"} title="To the end (G)" onClick={() => reading.toEnd()}>
      {count ? `${count} new ↓` : "↓ End"}
    </button>
  );
}

/** The entry after `#`: at the start it is opened with it, later it is gone to. */
function useHash(reading: Reading, finder: Finder): void {
  const known = useRef(place.peek().hash);
  useSignalEffect(() => {
    const { hash } = place.value;
    if (hash === known.current || !reading.isReady.peek()) return;
    known.current = hash;
    const position = positionOf(hash);
    if (position === null) return;
    const entry = reading.path.get(position);
    const isHere = entry ? entry.id === hash : position < reading.path.length;
    const isMoved = hash === movedTo.peek();
    movedTo.value = "";
    if (isMoved) reading.goToMoved(hash);
    else if (isHere) {
      reading.goTo(position);
      finder.visit(position);
    } else toast("This entry is on another branch.", { title: "Show it", run: () => go(to.session(reading.id, { at: hash }, hash)) });
  });
}

/** What came while nobody looked is counted in the title of the tab. */
function useUnseen(reading: Reading): void {
  useSignalEffect(() => {
    unseen.value = reading.fresh.value + reading.missed.value;
  });
}

function useTranscriptCommands(reading: Reading, finder: Finder, isFinding: { value: boolean }): void {
  const entry = () => {
    const at = cursor.peek() === null ? null : positionOf(cursor.peek()!);
    const found = at === null ? undefined : reading.path.get(at);
    return found?.id === cursor.peek() ? found : undefined;
  };
  const withEntry = (use: (entry: Entry) => void) => () => {
    const found = entry();
    if (found) use(found);
    else toast("Choose an entry first: press j or k, or click on one.");
  };
  const take = (text: string, said: string) => copy(text).then(() => toast(said), told);
  const takeMarkdown = (entries: readonly Entry[], said: string) =>
    void import("./markdown").then(({ markdownOf }) => take(markdownOf(reading, entries), said), told);
  // Whoever goes from entry to entry is in the transcript from then on, wherever the focus was before.
  const walking = (go: () => unknown) => () => {
    const feed = document.getElementById("transcript");
    if (!feed?.contains(document.activeElement)) feed?.focus({ preventScroll: true });
    void go();
  };
  const group = "Transcript";
  useCommands(() => [
    { id: "next", title: "Next entry", group, keys: ["j"], run: walking(() => reading.step(1)), inPalette: false },
    { id: "previous", title: "Previous entry", group, keys: ["k"], run: walking(() => reading.step(-1)), inPalette: false },
    { id: "next-prompt", title: "Next prompt", group, keys: ["J"], run: walking(() => reading.prompt(1)) },
    { id: "previous-prompt", title: "Previous prompt", group, keys: ["K"], run: walking(() => reading.prompt(-1)) },
    { id: "first", title: "To the beginning", group, keys: ["g g"], run: walking(() => reading.toEdge("first")) },
    { id: "last", title: "To the end", group, keys: ["G"], run: walking(() => reading.toEdge("last")) },
    { id: "fold", title: "Fold or unfold the entry", group, keys: ["z"], run: withEntry((one) => reading.fold(one.position)) },
    { id: "raw", title: "Show as it is stored", group, keys: ["r"], run: withEntry((one) => reading.toggleRaw(one.id)) },
    { id: "copy-place", title: "Copy the place", group, keys: ["y"], run: withEntry((one) => void take(`${reading.id}@${one.id}`, "The place is copied.")) },
    {
      id: "copy-link",
      title: "Copy the link",
      group,
      run: withEntry((one) => void take(new URL(to.session(reading.id, { at: reading.at }, one.id), location.href).href, "The link is copied.")),
    },
    { id: "copy-markdown", title: "Copy as Markdown", group, keys: ["Y"], run: withEntry((one) => takeMarkdown([one], "Copied as Markdown.")) },
    {
      id: "copy-turn",
      title: "Copy the turn as Markdown",
      group,
      run: withEntry((one) => void reading.turnOf(one.position).then((turn) => takeMarkdown(turn, "The turn is copied as Markdown."), told)),
    },
    { id: "hide-tools", title: "Show or hide tools", group, keys: ["T"], run: () => void (showsTools.value = !showsTools.value) },
    { id: "hide-thinking", title: "Show or hide thinking", group, keys: ["H"], run: () => void (showsThinking.value = !showsThinking.value) },
    { id: "only-prompts", title: "Show only prompts, or all", group, keys: ["P"], run: () => void (onlyPrompts.value = !onlyPrompts.value) },
    { id: "find", title: "Find in this session", group, keys: ["Ctrl+f"], run: () => openFind(isFinding) },
    { id: "next-hit", title: "Next hit", group, keys: ["n"], run: () => finder.next(1), inPalette: false },
    { id: "previous-hit", title: "Previous hit", group, keys: ["N"], run: () => finder.next(-1), inPalette: false },
  ]);
}

function openFind(isFinding: { value: boolean }): void {
  isFinding.value = true;
  const field = document.querySelector<HTMLInputElement>("#find");
  field?.focus();
  field?.select();
}
