// All keys that can be used now, made of the commands.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { lazy } from "../parts/lazy";
import { type Command, useCommands } from "./commands";
import "./keys.css";

const KeyDialog = lazy(() => import("./KeyDialog").then((found) => found.KeyDialog));

const ORDER = ["General", "Sessions", "Transcript", "Branches", "Files", "Usage", "Go on"];
const NAMES: Record<string, string> = { Escape: "Esc", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", " ": "Space" };
const CONTROL = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘" : "Ctrl";

/** A key, keys together (`Ctrl+k`) or one after the other (`g g`). */
export function Keys({ keys }: { keys: string }): JSX.Element {
  return (
    <span class="keys">
      {(keys === " " ? [keys] : keys.split(" ")).map((one, index) => {
        const isControl = one.startsWith("Ctrl+");
        const key = isControl ? one.slice(5).toUpperCase() : one;
        return (
          <span key={index}>
            {isControl && <kbd>{CONTROL}</kbd>}
            <kbd>{NAMES[key] ?? key}</kbd>
          </span>
        );
      })}
    </span>
  );
}

/** The commands by group, in the order of the groups; the newest of an id counts. */
export function grouped(all: readonly Command[]): [string, Command[]][] {
  const latest = new Map(all.map((one) => [one.id, one]));
  const groups = new Map<string, Command[]>();
  for (const one of latest.values()) groups.set(one.group, [...(groups.get(one.group) ?? []), one]);
  const rank = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return [...groups].sort(([one], [other]) => rank(one) - rank(other));
}

export function KeySheet(): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  useCommands(() => [{ id: "keys", title: "All keys", group: "General", keys: ["?"], run: () => setOpen(true) }]);
  return isOpen ? <KeyDialog onClose={() => setOpen(false)} /> : null;
}
