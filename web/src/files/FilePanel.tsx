// The tab "Files": the steps of the path at which files were kept, what changed at each, and all files of that moment.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { session as at } from "../api/client";
import type { FileDiff, Outline } from "../api/trees";
import type { OutlineItem, Page, SessionInfo } from "../api/types";
import { go, place, to } from "../app/router";
import { mayFiles } from "../app/state";
import { chosenPoint } from "../branches/moves";
import { agentMark, checkpointTitle } from "../parts/checkpoints";
import { plural } from "../parts/numbers";
import { useRead } from "../parts/read";
import { useSlowly } from "../parts/slowly";
import { ago, exact } from "../parts/time";
import { Changes } from "./Changes";
import { FileDialog } from "./FileDialog";
import { FileTree } from "./FileTree";
import { RestoreDialog } from "./RestoreDialog";
import "./files.css";

/** A checkpoint with files. */
export interface Step {
  /** What it goes by; `checkpoint` is its name. */
  name: string;
  checkpoint: string;
  /** The small mark of one that an agent set. */
  mark: string | null;
  entry: string;
  position: number;
  at: string;
  snapshot: string;
}

function stepsOf(points: readonly OutlineItem[]): Step[] {
  return points
    .filter((one) => one.kind === "checkpoint" && one.snapshot)
    .map((one) => ({
      name: checkpointTitle(one),
      checkpoint: one.text,
      mark: agentMark(one.text),
      entry: one.id,
      position: one.position,
      at: one.at,
      snapshot: one.snapshot!,
    }));
}

/** The step before one that has the files of the same place: an agent keeps those outside of the workspace apart. */
function stepBefore(steps: readonly Step[], index: number): Step | undefined {
  return steps.findLast((one, at) => at < index && (one.mark === "other files") === (steps[index]!.mark === "other files"));
}

export function FilePanel({ session }: { session: SessionInfo }): JSX.Element {
  const { query } = place.value;
  const branch = query.get("at");
  const version = useSlowly(`${session.hash} ${session.updated_at}`);
  const { value: outline, why } = useRead<Outline>(at(session.id, "/outline"), { at: branch }, [version]);
  if (!mayFiles.value) return <p class="files-note">Your token may not read files. Sign in with one that has the scope files.</p>;
  if (!outline) return <p class="files-note">{why || "Reading…"}</p>;
  const steps = stepsOf(outline.data);
  if (!steps.length) return <NoSteps id={session.id} />;
  // The step that was chosen, else the last one up to the entry under the cursor.
  const asked = query.get("step");
  const position = chosenPoint.value?.position ?? Infinity;
  const index = steps.findLastIndex((one) => (asked === null ? one.position <= position : one.snapshot === asked));
  return (
    <>
      <ol class="files-steps" aria-label="Steps with files">
        {steps.map((one, number) => (
          <li key={`${one.entry} ${one.checkpoint}`}>
            <button
              type="button"
              ref={number === index ? shown : undefined}
              class="quiet files-step"
              aria-current={number === index ? "step" : undefined}
              title={[one.name, `entry ${one.position}, ${exact(one.at)}`, one.mark && one.checkpoint].filter(Boolean).join("\n")}
              onClick={() => go(to.here({ step: one.snapshot, against: null, file: null }), { replace: true })}
            >
              <b>{one.name}</b>
              {steps.length - number <= COUNTED && <Count a={stepBefore(steps, number)?.snapshot ?? null} b={one.snapshot} />}
              {one.mark && <small title="The agent recorded files here">{one.mark === "files" ? "◆" : `◆ ${one.mark}`}</small>}
              <small>{ago(one.at)}</small>
            </button>
          </li>
        ))}
      </ol>
      {index < 0 ? (
        <p class="files-note">No files were kept up to entry {position}. Choose a step.</p>
      ) : (
        <OneStep key={steps[index]!.snapshot} session={session} steps={steps} index={index} />
      )}
    </>
  );
}

const shown = (step: HTMLElement | null): void => step?.scrollIntoView({ block: "nearest" });

/** So many of the last steps say how many files changed. */
const COUNTED = 12;
const MOST = 100;

function Count({ a, b }: { a: string | null; b: string }): JSX.Element | null {
  const { value } = useRead<Page<FileDiff>>(a === null || a === b ? null : "/diff", { a, b, limit: MOST });
  if (!value) return null;
  const count = value.data.filter((one) => one.status !== "unrecorded").length;
  return <small>{value.cursor === null ? plural(count, "file") : `over ${MOST} files`}</small>;
}

function NoSteps({ id }: { id: string }): JSX.Element {
  return (
    <div class="files-note">
      <p>No checkpoint on this path has files.</p>
      <p>
        A checkpoint keeps the files of a directory when it is told to:
        <br />
        <code>
          clew checkpoint --files DIRECTORY {quoted(id)} NAME
        </code>
      </p>
    </div>
  );
}

/** A word for a shell, whatever is in it: people paste what they see. */
function quoted(text: string): string {
  return /^\w[\w.:/@-]*$/.test(text) ? text : `-- '${text.replaceAll("'", "'\\''")}'`;
}

const NOTHING = "none";

function OneStep({ session, steps, index }: { session: SessionInfo; steps: readonly Step[]; index: number }): JSX.Element {
  const { query } = place.value;
  const step = steps[index]!;
  const previous = stepBefore(steps, index);
  const before = query.get("against") ?? previous?.snapshot ?? NOTHING;
  const [showsAll, setAll] = useState(before === NOTHING);
  const [isRestoring, setRestoring] = useState(false);
  const file = query.get("file");
  const openFile = (path: string) => go(to.here({ step: step.snapshot, file: path }));
  const closeFile = () => go(to.here({ file: null }), { replace: true });
  return (
    <section aria-label={`Files at ${step.name}`}>
      <h3 class="files-title">
        {step.name} {step.position >= 0 && <a href={to.here({}, step.entry)}>entry {step.position}</a>}
      </h3>
      <div class="files-row">
        <button type="button" aria-pressed={!showsAll} onClick={() => setAll(false)}>
          Changes
        </button>
        <button type="button" aria-pressed={showsAll} onClick={() => setAll(true)}>
          All files
        </button>
        <button type="button" onClick={() => setRestoring(true)}>
          Restore…
        </button>
      </div>
      {!showsAll && (
        <>
          <label class="files-row">
            since
            <select value={before} onChange={(event) => go(to.here({ step: step.snapshot, against: event.currentTarget.value }), { replace: true })}>
              {before === NOTHING && <option value={NOTHING}>choose a step</option>}
              {steps.map((one) => (
                <option key={`${one.entry} ${one.checkpoint}`} value={one.snapshot} disabled={one.snapshot === step.snapshot}>
                  {one.name}
                  {one === previous ? " (the step before)" : ""}
                </option>
              ))}
            </select>
          </label>
          {before === NOTHING ? (
            <p class="files-note">This is the first step with files: there is none before it to compare with.</p>
          ) : (
            <Changes a={before} b={step.snapshot} onFile={openFile} />
          )}
        </>
      )}
      {showsAll && <FileTree snapshot={step.snapshot} onFile={openFile} />}
      {file !== null && (
        <FileDialog
          key={`${step.snapshot} ${file}`}
          session={session.id}
          steps={steps}
          step={step}
          before={before === NOTHING ? null : before}
          path={file}
          onClose={closeFile}
        />
      )}
      {isRestoring && <RestoreDialog step={step} onClose={() => setRestoring(false)} />}
    </section>
  );
}
