// Which session a dialog is about, if it is not the one that is read.
import type { JSX } from "preact";
import { current } from "../app/state";
import type { Target } from "../sessions/actions";

export function isShown({ id }: Target): boolean {
  return current.value?.id === id;
}

export function Of({ session }: { session: Target }): JSX.Element | null {
  return isShown(session) ? null : <p class="handoff-of">{session.title ?? session.id}</p>;
}
