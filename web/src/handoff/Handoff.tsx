// The dialogs with which a session goes on elsewhere: resume, export, share.
import type { JSX } from "preact";

export function Handoff(): JSX.Element | null {
  return null;
}
