// The dialogs that show what a move does before it does it.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, me, post, session as at } from "../api/client";
import type { Comparison, Moved, Outline, Restored } from "../api/trees";
import { entryId, type Head } from "../api/types";
import { Dialog } from "../app/Dialog";
import { mayRestore } from "../app/state";
import { told, wordsOf } from "../app/toast";
import { HowToAllow, Plan } from "../files/Plan";
import { checkpointTitle } from "../parts/checkpoints";
import { plural } from "../parts/numbers";
import { AgentNote } from "./AgentNote";
import { rewind, take } from "./moves";

type Files = { plan: Restored | null; checkpoint: string } | { none: string };

/** What a rewind would do to files. Only asked for where there are some, and where the answer would not be a refusal. */
async function filesAt(id: string, point: Head, signal: AbortSignal): Promise<Files> {
  const outline = await get<Outline>(at(id, "/outline"), { at: entryId(point) }, signal);
  const last = outline.data.findLast((one) => one.snapshot);
  if (!last) return { none: "No checkpoint up to here has files." };
  if (!mayRestore.peek() && me.peek()?.kind !== "owner") return { none: "Your token may not change files." };
  try {
    const moved = await post<Moved>(at(id, "/rewind"), { to: point, files: true, dry_run: true }, { signal });
    return { plan: moved.files ?? null, checkpoint: checkpointTitle(last) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { none: `${error.message}${error.next ? ` Next: ${error.next}` : ""}` };
  }
}

export function RewindDialog({ id, point, onClose }: { id: string; point: Head; onClose: () => void }): JSX.Element {
  const [paths, setPaths] = useState<Comparison | null>(null);
  const [files, setFiles] = useState<Files | null>(null);
  const [takes, setTakes] = useState(mayRestore.peek());
  const [conflict, setConflict] = useState("overwrite");
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");

  useEffect(() => {
    const over = new AbortController();
    get<Comparison>("/compare", { a: id, b: id, b_at: entryId(point) }, over.signal).then(setPaths, told);
    filesAt(id, point, over.signal).then(setFiles, told);
    return () => over.abort();
  }, []);

  const plan = files && "plan" in files ? files.plan : null;
  const checkpoint = files && "plan" in files ? files.checkpoint : "";
  const moves = plan !== null && plan.changes.length > 0;
  const confirm = async () => {
    setBusy(true);
    try {
      await rewind(point, moves && takes && mayRestore.peek(), conflict);
    } catch (error) {
      setFailed(wordsOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title="Rewind to here" onClose={onClose}>
      {paths === null ? <p>Looking at what would happen…</p> : <Leaving paths={paths} position={point.position} />}
      <AgentNote id={id} point={point} />
      {files === null && <p class="branches-note">Looking at the files…</p>}
      {files && "none" in files && <p>Files stay as they are. {files.none}</p>}
      {plan && !moves && <p>The files are as they were then already.</p>}
      {plan && moves && !mayRestore.value && (
        <>
          <HowToAllow />
          <Plan plan={plan} would />
        </>
      )}
      {plan && moves && mayRestore.value && (
        <div class="branches-choices">
          <label>
            <input type="checkbox" checked={takes} onChange={(event) => setTakes(event.currentTarget.checked)} />
            <span>
              Restore the files of <b>{checkpoint}</b> too, in <code>{plan.root}</code>
            </span>
          </label>
          {takes && <Plan plan={plan} would />}
          {takes && plan.conflicts.length > 0 && (
            <label>
              <span>Files that no snapshot has as they are now:</span>
              <select value={conflict} onChange={(event) => setConflict(event.currentTarget.value)}>
                <option value="overwrite">overwrite them (undo brings them back)</option>
                <option value="keep">keep them</option>
              </select>
            </label>
          )}
        </div>
      )}
      {failed && (
        <p class="files-bad" role="alert">
          {failed}
        </p>
      )}
      <div class="branches-buttons">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="primary" disabled={isBusy || paths === null || files === null} onClick={() => void confirm()}>
          {moves && takes && mayRestore.value ? "Rewind with files" : "Rewind"}
        </button>
      </div>
    </Dialog>
  );
}

function Leaving({ paths, position }: { paths: Comparison; position: number }): JSX.Element {
  const { entries_after: leave } = paths.a;
  const { entries_after: come } = paths.b;
  return (
    <p>
      The path will end with entry {position}. {leave > 0 && <b>{plural(leave, "entry leaves", "entries leave")} the path. </b>}
      {come > 0 && <b>{plural(come, "entry comes", "entries come")} back onto it. </b>}
      Nothing is deleted: what leaves stays in the tree, and Undo brings it back.
    </p>
  );
}

export function StepDialog({ what, plan, onClose }: { what: "undo" | "redo"; plan: Moved; onClose: () => void }): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const title = what === "undo" ? "Undo" : "Redo";
  const confirm = async () => {
    setBusy(true);
    try {
      await take(what);
    } catch (error) {
      setFailed(wordsOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`${title}, with files`} onClose={onClose}>
      <p>
        The path will end with entry {plan.head.position}. Files in <code>{plan.files!.root}</code> move with it.
      </p>
      {!mayRestore.value && <HowToAllow />}
      <Plan plan={plan.files!} would />
      {failed && (
        <p class="files-bad" role="alert">
          {failed}
        </p>
      )}
      <div class="branches-buttons">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="primary" disabled={isBusy || !mayRestore.value} onClick={() => void confirm()}>
          {title}
        </button>
      </div>
    </Dialog>
  );
}

