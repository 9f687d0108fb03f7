// Copying to the clipboard.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { told } from "../app/toast";
import { CheckIcon, CopyIcon } from "./icons";

/** Copy a text. Where the page is not served by https or from this machine, browsers have only the old way. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  // A dialog keeps all focus inside.
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  if (!isDone) throw new Error("The browser does not let the page copy. Select the text, and copy it by hand.");
}

const SHOWN = 2000;

interface Props {
  /** What is copied; a function is asked when the button is pressed. */
  text: string | (() => string);
  /** The name of the button: "Copy the command". */
  name: string;
  /** Stands beside the icon; without it only the icon is seen. */
  children?: string;
  class?: string;
}

/** A button that copies a text, and says so. */
export function CopyButton({ text, name, children, class: classes = "quiet" }: Props): JSX.Element {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return;
    const timer = setTimeout(() => setDone(false), SHOWN);
    return () => clearTimeout(timer);
  }, [isDone]);
  return (
    <button
      type="button"
      class={`copy ${classes}`}
      aria-label={isDone ? "Copied" : name}
      title={name}
      onClick={() => void copy(typeof text === "string" ? text : text()).then(() => setDone(true), told)}
    >
      {isDone ? <CheckIcon /> : <CopyIcon />}
      {children && <span>{isDone ? "Copied" : children}</span>}
      <span class="unseen" role="status">
        {isDone ? "Copied" : ""}
      </span>
    </button>
  );
}
