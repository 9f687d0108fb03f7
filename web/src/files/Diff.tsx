// Unified diffs, drawn line by line. They are text of the API, and stay text.
import type { JSX } from "preact";
import { useState } from "preact/hooks";

/** Lines that are drawn at once: a browser draws some thousand without a pause. */
const MOST = 1500;
const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)/;

interface Line {
  kind: "" | "gi" | "gd" | "gu" | "gh";
  old: number | null;
  now: number | null;
  text: string;
}

/** The lines of a unified diff with their numbers. The header names the files, which the page does itself. */
export function linesOf(text: string): Line[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const found: Line[] = [];
  let old = 0;
  let now = 0;
  let isInside = false;
  for (const line of lines) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      isInside = true;
      old = Number(hunk[1]);
      now = Number(hunk[2]);
      found.push({ kind: "gu", old: null, now: null, text: line });
    } else if (!isInside) continue;
    else if (line.startsWith("+")) found.push({ kind: "gi", old: null, now: now++, text: line });
    else if (line.startsWith("-")) found.push({ kind: "gd", old: old++, now: null, text: line });
    else if (line.startsWith("\\")) found.push({ kind: "gh", old: null, now: null, text: line.slice(2) });
    else found.push({ kind: "", old: old++, now: now++, text: line });
  }
  return found;
}

export function countsOf(text: string): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const line of linesOf(text)) {
    if (line.kind === "gi") added++;
    else if (line.kind === "gd") removed++;
  }
  return { added, removed };
}

export function Diff({ text }: { text: string }): JSX.Element {
  const [most, setMost] = useState(MOST);
  const lines = linesOf(text);
  if (!lines.length) return <p class="files-note">The text is the same.</p>;
  return (
    <div class="files-diff" tabIndex={0} role="group" aria-label="Diff">
      {lines.slice(0, most).map((line, index) => (
        <div key={index} class={`files-line ${line.kind}`}>
          <span class="files-number">{line.old ?? ""}</span>
          <span class="files-number">{line.now ?? ""}</span>
          <span class="files-code">{line.text}</span>
        </div>
      ))}
      {lines.length > most && (
        <button type="button" class="files-more" onClick={() => setMost(most + 10 * MOST)}>
          Show {(lines.length - most).toLocaleString("en-US")} more lines
        </button>
      )}
    </div>
  );
}
