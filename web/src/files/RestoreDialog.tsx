// Makes files what they were at a step: a dry run first, then on request, then with a way back.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { me, part, post } from "../api/client";
import type { Restored, Snapshot } from "../api/trees";
import { Dialog } from "../app/Dialog";
import { mayRestore } from "../app/state";
import { toast, told, wordsOf } from "../app/toast";
import { plural } from "../parts/numbers";
import { useRead, useReading } from "../parts/read";
import type { Step } from "./FilePanel";
import { HowToAllow, Plan } from "./Plan";

interface Props {
  step: Step;
  /** Only this file; else all of them. */
  path?: string;
  onClose: () => void;
  /** Files were restored. */
  onDone?: () => void;
}

export function RestoreDialog({ step, path, onClose, onDone = onClose }: Props): JSX.Element {
  const [failed, setFailed] = useState("");
  const [conflict, setConflict] = useState("overwrite");
  const [isBusy, setBusy] = useState(false);
  const body = { snapshot: step.snapshot, on_conflict: conflict, ...(path === undefined ? {} : { paths: [path] }) };
  const { value: plan, why } = useReading(mayRestore.value ? JSON.stringify(body) : null, (signal) =>
    post<Restored>("/restores", { ...body, dry_run: true }, { signal }),
  );
  const restore = async () => {
    setBusy(true);
    try {
      restored(await post<Restored>("/restores", { ...body, dry_run: false }));
      onDone();
    } catch (error) {
      setFailed(wordsOf(error));
      setBusy(false);
    }
  };
  const what = path === undefined ? "the files" : path;
  return (
    <Dialog title={`Restore ${what} of ${step.name}`} onClose={onClose}>
      {!mayRestore.value ? (
        <>
          <HowToAllow />
          <Where snapshot={step.snapshot} />
        </>
      ) : why || failed ? (
        <p class="files-bad" role="alert">
          {failed || why}
        </p>
      ) : plan === undefined ? (
        <p>Looking at what would happen…</p>
      ) : plan.changes.length === 0 ? (
        <p>The files are as they were then already. There is nothing to do.</p>
      ) : (
        <>
          <p>
            In <code>{plan.root}</code>. The conversation stays where it is. The files of now are kept first: Undo brings them back.
          </p>
          <Plan plan={plan} would />
        </>
      )}
      {(plan?.conflicts.length || conflict === "keep") && (
        <label class="files-row">
          Files that no snapshot has as they are now:
          <select value={conflict} onChange={(event) => setConflict(event.currentTarget.value)}>
            <option value="overwrite">overwrite them (undo brings them back)</option>
            <option value="keep">keep them</option>
          </select>
        </label>
      )}
      <div class="branches-buttons">
        <button type="button" onClick={onClose}>
          {plan?.changes.length ? "Cancel" : "Close"}
        </button>
        {!!plan?.changes.length && (
          <button type="button" class="primary" disabled={isBusy} onClick={() => void restore()}>
            Restore
          </button>
        )}
      </div>
    </Dialog>
  );
}

/** How to do the same on the machine of the files. */
function Where({ snapshot }: { snapshot: string }): JSX.Element | null {
  const { value: found } = useRead<Snapshot>(`/snapshots/${part(snapshot)}`);
  if (!found?.root || me.value?.kind !== "owner") return null;
  return (
    <p>
      Or on the machine itself, in <code>{found.root}</code>: <code>clew restore {snapshot}</code>
    </p>
  );
}

function restored(done: Restored): void {
  const changed = done.changes.filter((one) => one.kind !== "directory").length;
  const bad = done.failed.length ? ` ${plural(done.failed.length, "file")} could not be changed: ${done.failed[0]!.path}.` : "";
  const undo = async () => {
    const back = await post<Restored>(`/restores/${part(done.id!)}/undo`, { dry_run: false });
    const count = back.changes.filter((one) => one.kind !== "directory").length;
    toast(`Undone: ${plural(count, "file")} changed back.`);
  };
  const action = done.id === null ? undefined : { title: "Undo", run: () => void undo().catch(told) };
  toast(`Restored: ${plural(changed, "file")} changed.${bad}`, action, bad !== "");
}
