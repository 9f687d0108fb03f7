// All keys that can be used now, made of the commands.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Command, commands, useCommands } from "./commands";
import { Dialog } from "./Dialog";
import "./keys.css";

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
  if (!isOpen) return null;
  return (
    <Dialog title="Keys" class="keysheet" onClose={() => setOpen(false)}>
      <div class="keysheet-groups">
        {grouped(commands.value.filter((one) => one.keys?.length)).map(([name, found]) => (
          <section key={name}>
            <h3>{name}</h3>
            <dl>
              {found.map((one) => (
                <div key={one.id}>
                  <dt>{one.title}</dt>
                  <dd>
                    {one.keys!.map((keys, index) => (
                      <span key={keys}>
                        {index > 0 && <small> or </small>}
                        <Keys keys={keys} />
                      </span>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
