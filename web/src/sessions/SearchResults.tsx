// What was found, by session: the words in their place, and a link to it.
import type { JSX } from "preact";
import type { Hit } from "../api/types";
import { place, to } from "../app/router";
import { plural } from "../parts/numbers";
import { ago, exact } from "../parts/time";
import { clock } from "./clock";
import { filters } from "./filters";
import type { SessionList } from "./list";
import type { Row } from "./rows";
import { found, type Group, grouped, isSearching, searchOn } from "./search";
import { Mark } from "./SessionRow";

const SHOWN = 3;
const NAMES = 3;

export function SearchResults({ list, words }: { list: SessionList | null; words: string }): JSX.Element {
  const now = found.value;
  void list?.version.value;
  const groups = now ? grouped(now.hits, filters.value, (id) => list?.find(id)) : [];
  const names = list ? named(list.shown, words) : [];
  const isEmpty = now !== null && groups.length === 0 && names.length === 0;
  return (
    <div class="sessions-scroll sessions-found" id="found" onKeyDown={onArrow}>
      <p class="unseen" role="status">
        {now && !isSearching.value ? `${plural(now.hits.length, "hit")} in ${plural(groups.length, "session")}` : ""}
      </p>
      {now === null && isSearching.value && <p class="loading">Searching…</p>}
      {names.length > 0 && (
        <div class="sessions-names">
          {names.map((row) => (
            <a key={row.id} class="sessions-link sessions-named" href={to.session(row.id)} aria-current={current(row.id)}>
              <Mark row={row} />
              <span class="sessions-title">{row.title}</span>
              <span class="sessions-facts">{[row.project, row.agent].filter(Boolean).join(" · ")}</span>
            </a>
          ))}
        </div>
      )}
      {groups.map((group) => (
        <FoundIn key={group.id} group={group} />
      ))}
      {now?.cursor != null && (
        <button type="button" class="sessions-more" disabled={isSearching.value} onClick={() => void searchOn(filters.value)}>
          Show more
        </button>
      )}
      {isEmpty && !isSearching.value && (
        <div class="sessions-empty">
          <p>Nothing has these words.</p>
          <p>
            All words are searched for, in any order. Put a phrase <code>"in quotes"</code>, end a word with <code>*</code> to find
            what begins with it, or write <code>-word</code> to leave it out.
          </p>
        </div>
      )}
    </div>
  );
}

function current(id: string): "page" | undefined {
  return place.value.id === id ? "page" : undefined;
}

/** Sessions that are called so, of those that were read. */
function named(rows: readonly Row[], words: string): Row[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const names: Row[] = [];
  for (const row of rows) {
    const text = `${row.title} ${row.project} ${row.id}`.toLowerCase();
    if (wanted.every((word) => text.includes(word)) && names.push(row) === NAMES) break;
  }
  return names;
}

function FoundIn({ group }: { group: Group }): JSX.Element {
  const { row, hits } = group;
  const rest = hits.slice(SHOWN);
  return (
    <div class="sessions-group">
      <h3>
        <span class="sessions-title">{group.title}</span>
        {row && <small class="sessions-facts">{[row.project, row.agent].filter(Boolean).join(" · ")}</small>}
      </h3>
      {hits.slice(0, SHOWN).map((hit) => (
        <Place key={hit.entry_id} hit={hit} />
      ))}
      {rest.length > 0 && (
        <details>
          <summary>{plural(rest.length, "more place")}</summary>
          {rest.map((hit) => (
            <Place key={hit.entry_id} hit={hit} />
          ))}
        </details>
      )}
    </div>
  );
}

const ROLES: Record<string, string> = { user: "You", assistant: "Agent", tool: "Tool", system: "System", other: "" };

function Place({ hit }: { hit: Hit }): JSX.Element {
  const address = to.session(hit.session, { at: hit.on_path ? null : hit.entry_id }, hit.entry_id);
  const isHere = place.value.id === hit.session && place.value.hash === hit.entry_id;
  return (
    <a class="sessions-hit" href={address} aria-current={isHere ? "location" : undefined}>
      <small>
        <span class={`sessions-role-${hit.in_tool ? "tool" : hit.role}`}>{hit.in_tool ? "Tool" : ROLES[hit.role]}</span>
        {hit.on_path ? "" : " · another branch"}
        {hit.copies > 0 ? ` · ${plural(hit.copies, "copy", "copies")}` : ""}
        <time dateTime={hit.at} title={exact(hit.at)}>
          {ago(hit.at, new Date(clock.value))}
        </time>
      </small>
      <span class="sessions-snippet">{marked(hit)}</span>
    </a>
  );
}

/** The snippet with its hits marked: text, whatever it says. */
export function marked({ snippet, marks }: Pick<Hit, "snippet" | "marks">): (string | JSX.Element)[] {
  const letters = Array.from(snippet);
  const parts: (string | JSX.Element)[] = [];
  let done = 0;
  for (const [start, end] of marks) {
    parts.push(letters.slice(done, start).join(""), <mark key={start}>{letters.slice(start, end).join("")}</mark>);
    done = end;
  }
  parts.push(letters.slice(done).join(""));
  return parts;
}

/** Arrow keys go from hit to hit. */
function onArrow(event: KeyboardEvent): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const own = event.currentTarget as HTMLElement;
  const all = [...own.querySelectorAll<HTMLElement>("a, summary, button")].filter((one) => one.offsetParent !== null);
  const next = all.indexOf(document.activeElement as HTMLElement) + (event.key === "ArrowDown" ? 1 : -1);
  event.preventDefault();
  if (next < 0) document.getElementById("search")?.focus();
  else all[next]?.focus();
}
