import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { commands, useCommands } from "./commands";
import { Dialog } from "./Dialog";

export function Palette(): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  useCommands(() => [{ id: "palette", title: "Commands", group: "General", keys: ["Ctrl+k"], run: () => setOpen(true), inPalette: false }]);
  if (!isOpen) return null;
  return (
    <Dialog title="Commands" onClose={() => setOpen(false)}>
      <ul>
        {commands.value.map((one) => (
          <li key={one.id}>
            <button type="button" onClick={() => (setOpen(false), one.run())}>
              {one.title}
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
