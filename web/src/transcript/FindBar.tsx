import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Finder } from "./find";

export function FindBar({ finder, onClose }: { finder: Finder; onClose: () => void }): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  const count = finder.hits.value.length;
  const hit = finder.hit.value;
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
      {hit && (
        <p class="transcript-find-hit">
          <small>Entry {hit.position}</small> <Snippet text={hit.snippet} marks={hit.marks} />
        </p>
      )}
    </form>
  );
}

/** The places of the hits are counted in code points. */
function Snippet({ text, marks }: { text: string; marks: [number, number][] }): JSX.Element {
  const letters = Array.from(text);
  const parts: (string | JSX.Element)[] = [];
  let from = 0;
  for (const [start, end] of marks) {
    parts.push(letters.slice(from, start).join(""), <mark>{letters.slice(start, end).join("")}</mark>);
    from = end;
  }
  parts.push(letters.slice(from).join(""));
  return <span>{parts}</span>;
}
