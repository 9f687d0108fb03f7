// An entry as it is stored.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { send, session } from "../api/client";
import type { Entry } from "../api/types";

interface Props {
  session: string;
  entry: Entry;
  onClose: () => void;
}

export function Raw({ session: id, entry, onClose }: Props): JSX.Element {
  const [text, setText] = useState("Loading…");
  useEffect(() => {
    const over = new AbortController();
    send("GET", session(id, `/entries/${encodeURIComponent(entry.id)}`), { query: { view: "raw" }, signal: over.signal })
      .then((answer) => answer.text())
      .then((found) => setText(indented(found)))
      .catch((error: Error) => {
        if (!over.signal.aborted) setText(error.message);
      });
    return () => over.abort();
  }, [entry.id]);
  return (
    <div class="transcript-raw">
      <p class="transcript-note">
        As it is stored{" "}
        <button type="button" class="quiet" onClick={onClose}>
          Close
        </button>
      </p>
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}

/** JSON with lines and indents. Its numbers and texts stay letter for letter: nothing is decoded. */
export function indented(json: string): string {
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s"[\]{},:]+/g) ?? [];
  let depth = 0;
  let made = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, index) => {
    const isOpening = token === "{" || token === "[";
    const isClosing = token === "}" || token === "]";
    if (isClosing) depth--;
    const isFilled = isClosing && !"{[".includes(tokens[index - 1]!);
    made += (isFilled ? line() : "") + token + (token === ":" ? " " : "");
    if (isOpening) depth++;
    if (token === "," || (isOpening && !"}]".includes(tokens[index + 1] ?? ""))) made += line();
  });
  return made;
}
