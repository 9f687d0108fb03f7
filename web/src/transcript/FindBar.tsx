import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { marked } from "../sessions/SearchResults";
import type { Finder } from "./find";

/** Hits of the list that are shown at once. */
const LISTED = 5;

export function FindBar({ finder, onClose }: { finder: Finder; onClose: () => void }): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  const count = finder.hits.value.length;
  // Those around the present one.
  const from = Math.max(0, Math.min(finder.at.value - Math.floor(LISTED / 2), count - LISTED));
  let said = "";
  if (finder.problem.value) said = finder.problem.value;
  else if (finder.isSearching.value) said = "Searching…";
  else if (count) said = `${finder.at.value + 1} of ${count}${finder.hasMore.value ? "+" : ""}`;
  else if (finder.text.value.trim()) said = "Nothing found";
  return (
    <form
      class="transcript-find"
      role="search"
      aria-label="Find in this session"
      onSubmit={(event) => {
        event.preventDefault();
        finder.next(1);
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") {
          event.preventDefault();
          onClose();
        } else if (event.key === "Enter" && event.shiftKey) {
          event.preventDefault();
          finder.next(-1);
        }
      }}
    >
      <input
        ref={field}
        id="find"
        dir="auto"
        type="search"
        aria-label="Find in this session"
        placeholder="Find in this session, tool output too"
        autocomplete="off"
        spellcheck={false}
        value={finder.text.value}
        onInput={(event) => finder.type(event.currentTarget.value)}
      />
      <span class="transcript-find-count" role="status">
        {said}
      </span>
      <button type="button" class="quiet" aria-label="Previous hit" title="Previous hit (N)" disabled={!count} onClick={() => finder.next(-1)}>
        ↑
      </button>
      <button type="button" class="quiet" aria-label="Next hit" title="Next hit (n)" disabled={!count} onClick={() => finder.next(1)}>
        ↓
      </button>
      <button type="button" class="quiet" aria-label="Close the search" onClick={onClose}>
        ×
      </button>
      {count > 0 && (
        <ol class="transcript-hits" aria-label="Hits">
          {finder.hits.value.slice(from, from + LISTED).map((hit, index) => (
            <li key={hit.entry_id}>
              <button
                type="button"
                class="quiet"
                aria-current={from + index === finder.at.value ? "true" : undefined}
                onClick={() => finder.go(from + index)}
              >
                <small>{hit.position}</small> {marked(hit)}
              </button>
            </li>
          ))}
        </ol>
      )}
    </form>
  );
}
