// Commands and sessions by some letters of their name, and messages by their words. All of it with the keyboard.
import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, isShare } from "../api/client";
import type { Hit, Page, SessionInfo } from "../api/types";
import { ago } from "../parts/time";
import { commands, useCommands } from "./commands";
import { Dialog } from "./Dialog";
import { fuzzy, type Match } from "./fuzzy";
import { grouped, Keys } from "./KeySheet";
import { go, to } from "./router";
import { told } from "./toast";
import "./palette.css";

interface Choice {
  id: string;
  score: number;
  title: ComponentChildren;
  note: ComponentChildren;
  run: () => void;
}

const NEWEST = 1000;
const PAGE = 200;
const FEW = 6;
const HITS = 8;
const LETTERS = 3; // for a search in messages
const PAUSE = 150;

export function Palette(): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  const chosen = useRef<(() => void) | null>(null);
  useCommands(() => [
    { id: "palette", title: "Commands and sessions", group: "General", keys: ["Ctrl+k"], run: () => setOpen(!isOpen), inPalette: false },
  ]);
  // What is chosen happens when the dialog is gone and the focus is back where it was.
  useEffect(() => {
    if (isOpen) return;
    chosen.current?.();
    chosen.current = null;
  }, [isOpen]);
  if (!isOpen) return null;
  return (
    <Dialog title="Commands and sessions" class="palette" isBare onClose={() => setOpen(false)}>
      <Finder
        onChoose={(run) => {
          chosen.current = run;
          setOpen(false);
        }}
      />
    </Dialog>
  );
}

function Finder({ onChoose }: { onChoose: (run: () => void) => void }): JSX.Element {
  const typed = useSignal("");
  const at = useSignal(0);
  const list = useRef<HTMLDivElement>(null);
  const sessions = useSessions();
  const hits = useHits(typed.value.trim());
  const words = typed.value.trim();
  // What fits best is at the top: sessions, or commands.
  const named: [string, Choice[]][] = [
    ["Sessions", sessionChoices(sessions, words)],
    ["Commands", commandChoices(words)],
  ];
  named.sort(([, one], [, other]) => (other[0]?.score ?? 0) - (one[0]?.score ?? 0));
  const groups = [...named, ["In messages", hitChoices(hits)] as const].filter(([, found]) => found.length > 0);
  const all = groups.flatMap(([, found]) => found);
  const chosen = Math.min(at.value, all.length - 1);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen, typed.value]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const by = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, PageDown: Math.min(chosen + 8, all.length - 1), PageUp: Math.max(chosen - 8, 0) }[event.key];
    if (event.key === "Enter" && all[chosen]) onChoose(all[chosen].run);
    else if (by !== undefined && all.length > 0) at.value = (by + all.length) % all.length;
    else return;
    event.preventDefault();
  };
  let number = 0;
  return (
    <>
      <input
        class="palette-field"
        type="text"
        role="combobox"
        aria-label="Go to, or do"
        aria-expanded={all.length > 0}
        aria-controls="palette-list"
        aria-autocomplete="list"
        aria-activedescendant={all[chosen] ? `palette-${chosen}` : undefined}
        placeholder={isShare() ? "A command" : "A session, a command, or words of a message"}
        autocomplete="off"
        spellcheck={false}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={onKeyDown}
      />
      <div id="palette-list" class="palette-list" role="listbox" aria-label="Found" ref={list}>
        {groups.map(([name, found]) => (
          <div key={name} role="group" aria-label={name}>
            <div class="palette-group" aria-hidden="true">
              {name}
            </div>
            {found.map((one) => {
              const index = number++;
              return (
                <div
                  key={one.id}
                  id={`palette-${index}`}
                  role="option"
                  class="palette-option"
                  aria-selected={index === chosen}
                  onMouseMove={() => void (at.value = index)}
                  onClick={() => onChoose(one.run)}
                >
                  <span class="palette-title">{one.title}</span>
                  <span class="palette-note">{one.note}</span>
                </div>
              );
            })}
          </div>
        ))}
      </div>
      {all.length === 0 && <p class="palette-none">Nothing is called so.</p>}
      <span class="unseen" role="status">
        {all.length} found
      </span>
    </>
  );
}

/** A title with the letters that were found. */
function marked(text: string, at: readonly number[]): ComponentChildren {
  if (at.length === 0) return text;
  const places = new Set(at);
  const parts: ComponentChildren[] = [];
  for (let from = 0; from < text.length; ) {
    const isHit = places.has(from);
    let end = from;
    while (end < text.length && places.has(end) === isHit) end++;
    const piece = text.slice(from, end);
    parts.push(isHit ? <b key={from}>{piece}</b> : piece);
    from = end;
  }
  return parts;
}

/** Those that fit, the best first; with nothing typed all of them, as they are. */
function best<T>(words: string, all: readonly T[], text: (one: T) => string): ({ one: T } & Match)[] {
  if (words === "") return all.map((one) => ({ one, score: 0, at: [] }));
  return all
    .flatMap((one) => {
      const match = fuzzy(words, text(one));
      return match ? [{ one, ...match }] : [];
    })
    .sort((a, b) => b.score - a.score);
}

function commandChoices(words: string): Choice[] {
  const offered = grouped(commands.value.filter((one) => one.inPalette !== false)).flatMap(([, found]) => found);
  // Those with a key are used most.
  offered.sort((one, other) => Number(!one.keys) - Number(!other.keys));
  return best(words, offered, (one) => one.title).map(({ one, score, at }) => ({
    id: `command ${one.id}`,
    score,
    title: marked(one.title, at),
    note: one.keys?.[0] ? <Keys keys={one.keys[0]} /> : one.group,
    run: one.run,
  }));
}

const titleOf = (one: SessionInfo) => one.title ?? (one.preview || one.id);

function sessionChoices(sessions: readonly SessionInfo[], words: string): Choice[] {
  return best(words, sessions, (one) => `${titleOf(one)} ${projectOf(one)}`)
    .slice(0, words === "" ? FEW : 2 * FEW)
    .map(({ one, score, at }) => {
      const title = titleOf(one);
      return {
        id: `session ${one.id}`,
        score,
        title: marked(title, at.filter((place) => place < title.length)),
        note: [projectOf(one), ago(one.updated_at)].filter(Boolean).join(" · "),
        run: () => go(to.session(one.id)),
      };
    });
}

function projectOf(one: SessionInfo): string {
  return one.workspace?.split(/[/\\]/).findLast((part) => part !== "") ?? "";
}

function hitChoices(hits: readonly Hit[]): Choice[] {
  return hits.map((one) => ({
    id: `hit ${one.session} ${one.entry_id}`,
    score: 0,
    title: one.snippet.replace(/\s+/g, " ").trim(),
    note: [one.title ?? one.session, ago(one.at)].join(" · "),
    run: () => go(to.session(one.session, { at: one.on_path ? null : one.entry_id }, one.entry_id)),
  }));
}

/** The newest sessions, page by page: read when the palette is opened. */
function useSessions(): readonly SessionInfo[] {
  const found = useSignal<readonly SessionInfo[]>([]);
  useEffect(() => {
    if (isShare()) return;
    const over = new AbortController();
    const read = async () => {
      let cursor: string | null = null;
      do {
        const page: Page<SessionInfo> = await get("/sessions", { limit: PAGE, subagents: false, cursor }, over.signal);
        found.value = [...found.peek(), ...page.data];
        cursor = page.cursor;
      } while (cursor !== null && found.peek().length < NEWEST);
    };
    read().catch(told);
    return () => over.abort();
  }, []);
  return found.value;
}

/** The last word may not be whole yet. */
function asTyped(words: string): string {
  return /[\p{L}\p{N}]$/u.test(words) ? `${words}*` : words;
}

/** Messages that have the words, a moment after the last letter. */
function useHits(words: string): readonly Hit[] {
  const found = useSignal<readonly Hit[]>([]);
  useEffect(() => {
    found.value = [];
    if (isShare() || words.length < LETTERS) return;
    const over = new AbortController();
    const timer = setTimeout(() => {
      get<Page<Hit>>("/search", { q: asTyped(words), limit: HITS, order: "best" }, over.signal).then(
        (page) => void (found.value = page.data),
        () => undefined, // half a query may be none yet
      );
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [words]);
  return found.value;
}
