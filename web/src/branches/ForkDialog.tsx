// Where a fork would begin, for a reader who does not see the entry.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { session as at } from "../api/client";
import { type Entry, entryId, type Head } from "../api/types";
import { Dialog } from "../app/Dialog";
import { wordsOf } from "../app/toast";
import { useRead } from "../parts/read";
import { fork, nameOf } from "./moves";

interface Props {
  id: string;
  point: Head;
  /** The reader chose no entry: the session stands here. */
  isEnd: boolean;
  onClose: () => void;
}

export function ForkDialog({ id, point, isEnd, onClose }: Props): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []); // Enter forks
  const path = point.position < 0 ? null : at(id, `/entries/${encodeURIComponent(entryId(point))}`);
  const entry = useRead<Entry>(path, { view: "line" }).value;
  const confirm = async () => {
    setBusy(true);
    try {
      await fork(isEnd ? null : point);
    } catch (error) {
      setFailed(wordsOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Fork ${nameOf(isEnd ? null : point)}`} onClose={onClose}>
      <p>
        The new session starts after entry {point.position}; this one does not change.
      </p>
      {entry?.line && <blockquote class="branches-quote">{entry.line}</blockquote>}
      {failed && (
        <p class="files-bad" role="alert">
          {failed}
        </p>
      )}
      <div class="branches-buttons">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="primary" ref={button} disabled={isBusy} onClick={() => void confirm()}>
          Fork
        </button>
      </div>
    </Dialog>
  );
}
