// Short notices at the bottom, with one thing to do at most: "Moved to the trash. [Undo]".
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { ApiError } from "../api/client";

interface Toast {
  id: number;
  text: string;
  isError: boolean;
  action?: { title: string; run: () => void };
  about: string;
}

const toasts = signal<readonly Toast[]>([]);
let next = 0;
const SHOWN = 6000;

/** `about`: what the notice is about, if a newer one takes its place: its "Undo" would undo something else by then. */
export function toast(text: string, action?: Toast["action"], isError = false, about = ""): void {
  const one = { id: next++, text, isError, action, about };
  // Two requests that fail for one reason are one notice.
  const others = toasts.value.filter((other) => other.text !== text && (about === "" || other.about !== about));
  toasts.value = [...others.slice(-2), one];
  setTimeout(() => dismiss(one.id), isError || action ? 2 * SHOWN : SHOWN);
}

/** Say what went wrong, and what to do next. */
export function told(error: unknown): void {
  if ((error as Error)?.name === "AbortError") return;
  toast(wordsOf(error), undefined, true);
}

/** The same for where it is shown otherwise: a dialog covers the notices. */
export function wordsOf(error: unknown): string {
  const next = error instanceof ApiError && error.next ? ` ${error.next}` : "";
  return `${(error as Error).message}${next}`;
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div key={one.id} class={one.isError ? "toast toast-error" : "toast"}>
          <span>{one.text}</span>
          {one.action && (
            <button
              type="button"
              onClick={() => {
                dismiss(one.id);
                one.action?.run();
              }}
            >
              {one.action.title}
            </button>
          )}
          <button type="button" class="toast-close" aria-label="Close" onClick={() => dismiss(one.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
