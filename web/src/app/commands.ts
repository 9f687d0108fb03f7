// What can be done, each with a name and keys. The keyboard, the palette and the sheet of keys are made of it.
import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface Command {
  id: string;
  /** As a person would say it: "Fork here". */
  title: string;
  /** "General", "Sessions", "Transcript", "Branches", "Files", "Usage", "Go on". */
  group: string;
  /** As `j`, `G`, `g g`, `Ctrl+k`, `Escape`, `?`. Letters are as typed: `J` is Shift and j. */
  keys?: readonly string[];
  run: () => void;
  /** Shown in the palette; false for moves that make sense with a key only. */
  inPalette?: boolean;
}

const registered = signal<readonly Command[]>([]);

/** The commands that can be used now. */
export const commands = computed(() => registered.value);

export function register(added: readonly Command[]): () => void {
  registered.value = [...registered.peek(), ...added];
  return () => {
    registered.value = registered.peek().filter((one) => !added.includes(one));
  };
}

/** Offer commands as long as a component is there. `run` may change from drawing to drawing. */
export function useCommands(make: () => readonly Command[], dependencies: readonly unknown[] = []): void {
  const latest = useRef<readonly Command[]>([]);
  latest.current = make();
  useEffect(
    () =>
      register(
        latest.current.map((one) => ({
          ...one,
          run: () => latest.current.find((now) => now.id === one.id)?.run(),
        })),
      ),
    dependencies,
  );
}

export function run(id: string): void {
  registered.peek().findLast((one) => one.id === id)?.run();
}

function keyOf(event: KeyboardEvent): string {
  const control = event.ctrlKey || event.metaKey ? "Ctrl+" : "";
  return control + event.key;
}

const FIELDS = "input, textarea, select, [contenteditable]";
const SEQUENCE = 1000;
let begun = "";
let begunAt = 0;

/** The listener of the document. What is typed into a field is the field's, but for Escape and Ctrl. */
export function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  const key = keyOf(event);
  const isField = event.target instanceof Element && event.target.closest(FIELDS) !== null;
  if (isField && key !== "Escape" && !key.startsWith("Ctrl+")) return;
  if (document.querySelector("dialog[open]") && key !== "Ctrl+k") return; // a dialog has keys of its own
  const now = event.timeStamp;
  const sequence = begun && now - begunAt < SEQUENCE ? `${begun} ${key}` : "";
  const found =
    registered.peek().findLast((one) => sequence && one.keys?.includes(sequence)) ??
    registered.peek().findLast((one) => one.keys?.includes(key));
  begun = key;
  begunAt = now;
  if (!found) return;
  begun = "";
  event.preventDefault();
  found.run();
}
