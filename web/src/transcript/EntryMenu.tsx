// What can be done with one entry.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { isShare } from "../api/client";
import type { Entry } from "../api/types";
import { commands, run } from "../app/commands";
import { cursor } from "../app/state";

interface Props {
  entry: Entry;
  button: HTMLElement;
  onClose: () => void;
}

/** Commands of this and of other parts of the page, in their order here; those that are not offered are not shown. */
const ITEMS = ["fork-here", "rewind-here", "compare-here", "copy-link", "copy-place", "copy-markdown", "copy-turn", "raw"];
const FOR_READERS = ["copy-markdown", "copy-turn", "raw"];

export function EntryMenu({ entry, button, onClose }: Props): JSX.Element {
  const own = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const menu = own.current!;
    const around = button.getBoundingClientRect();
    const { width, height } = menu.getBoundingClientRect();
    const below = around.bottom + 4;
    menu.style.left = `${Math.max(8, Math.min(around.right - width, innerWidth - width - 8))}px`;
    menu.style.top = `${below + height < innerHeight - 8 ? below : Math.max(8, around.top - height - 4)}px`;
    menu.querySelector("button")?.focus({ preventScroll: true });
  }, []);
  useEffect(() => {
    const outside = (event: Event) => {
      if (!own.current?.contains(event.target as Node)) onClose();
    };
    document.addEventListener("pointerdown", outside);
    document.getElementById("transcript")?.addEventListener("scroll", onClose, { once: true });
    return () => document.removeEventListener("pointerdown", outside);
  }, []);
  const choose = (id: string) => {
    onClose();
    button.focus({ preventScroll: true });
    cursor.value = entry.id;
    run(id);
  };
  const move = (step: number) => {
    const items = [...own.current!.querySelectorAll("button")];
    const at = items.indexOf(document.activeElement as HTMLButtonElement);
    items[(at + step + items.length) % items.length]?.focus();
  };
  const offered = isShare() ? FOR_READERS : ITEMS;
  const items = offered.map((id) => commands.value.findLast((one) => one.id === id)).filter((one) => one !== undefined);
  return (
    <div
      ref={own}
      class="transcript-menu"
      role="menu"
      aria-label={`Actions for entry ${entry.position}`}
      onKeyDown={(event) => {
        if (event.key === "ArrowDown") move(1);
        else if (event.key === "ArrowUp") move(-1);
        else if (event.key === "Escape" || event.key === "Tab") {
          onClose();
          button.focus({ preventScroll: true });
        } else if (event.key !== "Enter" && event.key !== " ") return;
        else return event.stopPropagation();
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <p role="presentation">Entry {entry.position}</p>
      {items.map((one) => (
        <button key={one.id} type="button" role="menuitem" tabIndex={-1} onClick={() => choose(one.id)}>
          <span>{one.title}</span>
          {one.keys?.[0] && <kbd>{one.keys[0]}</kbd>}
        </button>
      ))}
    </div>
  );
}
