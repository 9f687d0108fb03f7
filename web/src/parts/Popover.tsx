// A button that opens a small box beside it. The browser closes it: by Escape, or by a click elsewhere.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

interface Props {
  /** What the box is for, to screen readers. */
  label: string;
  /** What stands on the button. */
  face: ComponentChildren;
  /** Of the button, if what stands on it does not say it. */
  name?: string;
  class?: string;
  id?: string;
  /** What is inside, made when it is opened. */
  children: (close: () => void) => ComponentChildren;
}

const GAP = 4;

export function Popover({ label, face, name, class: classes = "", id, children }: Props): JSX.Element {
  const own = useId();
  const button = useRef<HTMLButtonElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  // A list has many of these buttons: the box is made when somebody comes near.
  const [isNear, setNear] = useState(false);

  useEffect(() => {
    if (!isOpen) return;
    const beside = button.current!.getBoundingClientRect();
    const inside = box.current!;
    const left = Math.min(beside.left, innerWidth - inside.offsetWidth - GAP);
    const below = beside.bottom + GAP;
    const top = below + inside.offsetHeight > innerHeight ? Math.max(GAP, beside.top - inside.offsetHeight - GAP) : below;
    inside.style.left = `${Math.max(GAP, left)}px`;
    inside.style.top = `${top}px`;
    inside.querySelector<HTMLElement>("input, button")?.focus();
  }, [isOpen]);

  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation(); // keys in here are no commands
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const all = [...box.current!.querySelectorAll<HTMLElement>("input:not([type='date']), button")];
    const at = all.indexOf(document.activeElement as HTMLElement) + (event.key === "ArrowDown" ? 1 : -1);
    all[(at + all.length) % all.length]?.focus();
    event.preventDefault();
  };

  return (
    <>
      <button
        ref={button}
        id={id}
        type="button"
        class={classes}
        aria-label={name}
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        popovertarget={own}
        onPointerEnter={() => setNear(true)}
        onFocus={() => setNear(true)}
      >
        {face}
      </button>
      {isNear && (
        <div
          ref={box}
          id={own}
          popover="auto"
          class="popover"
          role="dialog"
          aria-label={label}
          onToggle={(event) => setOpen((event as unknown as ToggleEvent).newState === "open")}
          onKeyDown={onKeyDown}
        >
          {isOpen && children(() => box.current?.hidePopover())}
        </div>
      )}
    </>
  );
}
