// What people and agents wrote beside an entry: its label, a note, a summary.
import type { JSX } from "preact";
import type { Entry } from "../api/types";

/** As in exported pages: other annotations are facts that programs keep there. */
const NAMES = ["label", "note", "summary"] as const;

export function Notes({ entry }: { entry: Entry }): JSX.Element {
  return (
    <>
      {NAMES.map((name) => {
        const text = entry.annotations?.[name];
        if (typeof text !== "string" || !text.trim()) return null;
        return (
          <p key={name} class="transcript-remark">
            <b>{name[0]!.toUpperCase() + name.slice(1)}</b> <span dir="auto">{text.trim()}</span>
          </p>
        );
      })}
    </>
  );
}
