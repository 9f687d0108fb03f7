// Who is signed in, and what can be done about it.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { me } from "../api/client";
import { KeysIcon, LeaveIcon, PersonIcon } from "../parts/icons";
import { run } from "./commands";
import { signOut } from "./signing";

export function AccountMenu(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const [isOpen, setOpen] = useState(false);
  const { name, scopes } = me.value!;
  const items = () => [...box.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
  const close = () => {
    box.current?.hidePopover();
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    event.stopPropagation(); // keys in here are no commands
    if (event.key === "Tab") return close();
    if (next === undefined) return;
    event.preventDefault();
    all.at(next % all.length)?.focus();
  };
  return (
    <>
      <button
        ref={button}
        id="account"
        type="button"
        class="quiet"
        aria-label={`Signed in as ${name}`}
        title={`Signed in as ${name}`}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        popovertarget="account-menu"
      >
        <PersonIcon />
        <span class="topbar-name">{name}</span>
      </button>
      <div
        ref={box}
        id="account-menu"
        class="topbar-menu"
        popover="auto"
        role="menu"
        aria-label={`Signed in as ${name}`}
        onToggle={(event) => {
          const isNow = (event as unknown as ToggleEvent).newState === "open";
          setOpen(isNow);
          if (isNow) items()[0]?.focus();
        }}
        onKeyDown={onKeyDown}
      >
        <p role="presentation">
          <b>{name}</b>
          <small>may {scopes.join(", ")}</small>
        </p>
        <button type="button" role="menuitem" tabIndex={-1} onClick={() => (close(), run("keys"))}>
          <KeysIcon /> Keys
        </button>
        <button id="leave" type="button" role="menuitem" tabIndex={-1} onClick={() => (close(), void signOut())}>
          <LeaveIcon /> Sign out
        </button>
      </div>
    </>
  );
}
