import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { commands, useCommands } from "./commands";
import { Dialog } from "./Dialog";

export function KeySheet(): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  useCommands(() => [{ id: "keys", title: "Keys", group: "General", keys: ["?"], run: () => setOpen(true) }]);
  if (!isOpen) return null;
  return (
    <Dialog title="Keys" onClose={() => setOpen(false)}>
      <dl>
        {commands.value.map((one) => (
          <div key={one.id}>
            <dt>{one.keys?.join(", ")}</dt>
            <dd>{one.title}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
