// The entries of one path, page by page, and the lines of the part that two paths share.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { session as at } from "../api/client";
import type { ComparedPath } from "../api/trees";
import { entryId, type Block, type Entry } from "../api/types";
import { to } from "../app/router";
import { Markup } from "../parts/Markup";
import { bytes, plural } from "../parts/numbers";
import { usePages } from "../parts/read";
import { clock, exact } from "../parts/time";
import { Picture } from "../transcript/Blocks";

const PAGE = 30;
const LINES = 100;

interface CommonProps {
  session: string;
  head: string;
  /** The last entry that is shared; behind it there may be none. */
  last: string;
  entries: number;
}

/** What the two paths share: one line that says how much, and one for each entry when it is unfolded. */
export function Common({ session, head, last, entries: count }: CommonProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const query = { at: last, view: "line", limit: LINES };
  const { value: entries, why, more } = usePages<Entry>(isOpen ? at(session, "/entries") : null, query);
  return (
    <section class="compare-common" aria-label="In common">
      <button type="button" class="quiet compare-fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? "▾" : "▸"} {plural(count, "entry", "entries")} in common
      </button>
      {isOpen && !entries && <p class="compare-note">{why || "Reading…"}</p>}
      {isOpen && entries && (
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
      {isOpen && more && (
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
  const query = { at: head, after: path.shared, view: "blocks", limit: PAGE };
  const { value: entries, why, more } = usePages<Entry>(at(path.session, "/entries"), query);
  if (!entries) return <p class="compare-note">{why || "Reading…"}</p>;
  let before = "";
  return (
    <>
      {folded(entries).map(({ entry, blocks, results }) => {
        const isFirst = before !== entry.speaker;
        before = entry.speaker ?? "";
        const link = to.session(path.session, { at: head }, entry.id);
        return <One key={entry.id} entry={entry} blocks={blocks} results={results} isFirst={isFirst} link={link} />;
      })}
      {more && (
        <button type="button" onClick={more}>
          Show more ({plural(path.entries_after - entries.length, "entry", "entries")} left)
        </button>
      )}
    </>
  );
}

const NAMES: Record<string, string> = { user: "User", assistant: "Assistant", tool: "Tool", system: "System", other: "Other", mark: "Mark" };

interface Folded {
  entry: Entry;
  blocks: readonly Block[];
  /** What came of the calls, by the ids of the calls. */
  results: ReadonlyMap<string, readonly Block[]>;
}

/** Entries with the results inside of their calls; one that holds nothing else is left out. */
function folded(entries: readonly Entry[]): Folded[] {
  const calls = new Set(entries.flatMap((one) => one.blocks ?? []).filter((one) => one.kind === "call").map((one) => one.call));
  const results = new Map<string, Block[]>();
  const found: Folded[] = [];
  for (const entry of entries) {
    const blocks = entry.blocks ?? [];
    const kept = blocks.filter((one) => one.kind === "call" || one.call === undefined || !calls.has(one.call));
    for (const one of blocks) if (!kept.includes(one)) results.set(one.call!, [...(results.get(one.call!) ?? []), one]);
    if (kept.length || entry.large || !blocks.length) found.push({ entry, blocks: kept, results });
  }
  return found;
}

function One({ entry, blocks, results, isFirst, link }: Folded & { isFirst: boolean; link: string }): JSX.Element {
  const speaker = entry.speaker ?? "other";
  return (
    <article class={`compare-entry compare-by-${speaker} ${speaker}`} aria-label={`${NAMES[speaker]}, entry ${entry.position}`}>
      <header class={isFirst ? undefined : "compare-later"}>
        {isFirst && <b>{NAMES[speaker]}</b>}
        <a href={link} title={`Entry ${entry.position}, ${exact(entry.at)}`}>
          {clock(entry.at)}
        </a>
      </header>
      {blocks.map((block, index) => (
        <Piece key={index} block={block} results={(block.call && results.get(block.call)) || []} />
      ))}
      {entry.large && <p class="compare-note">A large message ({bytes(entry.large.bytes)}): open the session to read it.</p>}
    </article>
  );
}

/** What was said is shown; what was thought, called and answered is one line that unfolds. */
function Piece({ block, results }: { block: Block; results: readonly Block[] }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  if (block.kind === "media") return <Picture block={block} />;
  if (block.kind === "text") return <Markup html={block.html ?? ""} />;
  const told = results.find((one) => one.line)?.line ?? block.line;
  const line = block.kind === "thinking" ? `Thinking: ${block.text ?? ""}` : (told?.text ?? `${block.name ?? "Data"} ${block.text ?? ""}`);
  return (
    <div>
      <button
        type="button"
        class={`quiet compare-fold compare-tool${block.is_error || told?.failed ? " compare-failed" : ""}`}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {isOpen ? "▾" : "▸"} {line.slice(0, 200)}
      </button>
      {isOpen && [block, ...results].map((one, index) => <Markup key={index} html={one.html ?? ""} />)}
    </div>
  );
}
