// The entries of one path, page by page, and the lines of the part that two paths share.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, session as at } from "../api/client";
import type { ComparedPath } from "../api/trees";
import { entryId, type Block, type Entry, type EntryPage } from "../api/types";
import { to } from "../app/router";
import { told } from "../app/toast";
import { Markup } from "../parts/Markup";
import { bytes, plural } from "../parts/numbers";
import { clock, exact } from "../parts/time";

const PAGE = 30;
const LINES = 100;

/** Reads pages of entries, one behind the other. */
function usePages(session: string, query: Record<string, string | number>, isOn = true) {
  const [entries, setEntries] = useState<readonly Entry[]>([]);
  const [next, setNext] = useState<string | null | undefined>(undefined);
  const over = useRef<AbortController | null>(null);
  const load = async (cursor: string | null) => {
    over.current?.abort();
    const own = (over.current = new AbortController());
    try {
      const page = await get<EntryPage>(at(session, "/entries"), { ...query, cursor }, own.signal);
      setEntries((before) => [...(cursor === null ? [] : before), ...page.data]);
      setNext(page.cursor);
    } catch (error) {
      if (!own.signal.aborted) told(error);
    }
  };
  useEffect(() => {
    if (isOn) void load(null);
    return () => over.current?.abort();
  }, [isOn]);
  return { entries, next, more: () => void load(next ?? null) };
}

/** What the two paths share: one line that says how much, and one for each entry when it is unfolded. */
export function Common({ session, head, entries: count }: { session: string; head: string; entries: number }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const { entries, next, more } = usePages(session, { at: head, before: count, view: "line", limit: LINES }, isOpen);
  return (
    <section class="compare-common" aria-label="In common">
      <button type="button" class="quiet compare-fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? "▾" : "▸"} {plural(count, "entry", "entries")} in common
      </button>
      {isOpen && next === undefined && <p class="compare-note">Reading…</p>}
      {isOpen && (
        <ol class="compare-lines">
          {entries.map((entry) => (
            <li key={entry.id} class={`compare-by-${entry.speaker}`}>
              <a href={to.session(session, { at: head }, entry.id)} title={exact(entry.at)}>
                {entry.position}
              </a>
              <span>{entry.line}</span>
            </li>
          ))}
        </ol>
      )}
      {isOpen && next && (
        <button type="button" onClick={more}>
          Show more
        </button>
      )}
    </section>
  );
}

/** The entries of one path behind what both share. */
export function Side({ path }: { path: ComparedPath }): JSX.Element {
  const head = entryId(path.head);
  const query: Record<string, string | number> = { at: head, view: "blocks", limit: PAGE };
  if (path.shared !== null) query.after = path.shared;
  const { entries, next, more } = usePages(path.session, query);
  if (next === undefined) return <p class="compare-note">Reading…</p>;
  return (
    <>
      {entries.map((entry) => (
        <One key={entry.id} entry={entry} link={to.session(path.session, { at: head }, entry.id)} />
      ))}
      {next !== null && (
        <button type="button" onClick={more}>
          Show more ({plural(path.entries_after - entries.length, "entry", "entries")} left)
        </button>
      )}
    </>
  );
}

const NAMES: Record<string, string> = { user: "User", assistant: "Assistant", tool: "Tool", system: "System", other: "Other", mark: "Mark" };

function One({ entry, link }: { entry: Entry; link: string }): JSX.Element {
  const speaker = entry.speaker ?? "other";
  return (
    <article class={`compare-entry compare-by-${speaker} ${speaker}`} aria-label={`${NAMES[speaker]}, entry ${entry.position}`}>
      <header>
        <b>{NAMES[speaker]}</b>{" "}
        <a href={link} title={`Entry ${entry.position}, ${exact(entry.at)}`}>
          {clock(entry.at)}
        </a>
      </header>
      {entry.blocks?.map((block, index) => <Piece key={index} block={block} />)}
      {entry.large && <p class="compare-note">A large message ({bytes(entry.large.bytes)}): open the session to read it.</p>}
    </article>
  );
}

/** What was said is shown; what was thought, called and answered is one line that unfolds. */
function Piece({ block }: { block: Block }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  if (block.kind === "text" || block.kind === "media") return <Markup html={block.html ?? ""} />;
  const line = block.kind === "thinking" ? `Thinking: ${block.text ?? ""}` : (block.line?.text ?? `${block.name ?? "Data"} ${block.text ?? ""}`);
  return (
    <div>
      <button
        type="button"
        class={`quiet compare-fold compare-tool${block.is_error || block.line?.failed ? " compare-failed" : ""}`}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {isOpen ? "▾" : "▸"} {line.slice(0, 200)}
      </button>
      {isOpen && <Markup html={block.html ?? ""} />}
    </div>
  );
}
