// One file at one step: how it changed, its text, and at which steps it changed.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { failure, get, headers, part, session as at } from "../api/client";
import type { FileDiff, FileVersion, ListedFile } from "../api/trees";
import type { Page } from "../api/types";
import { Dialog } from "../app/Dialog";
import { go, to } from "../app/router";
import { agentMark } from "../parts/checkpoints";
import { bytes } from "../parts/numbers";
import { type Read, useRead, useReading } from "../parts/read";
import { exact } from "../parts/time";
import { Difference } from "./Changes";
import type { Step } from "./FilePanel";
import { RestoreDialog } from "./RestoreDialog";

interface Props {
  session: string;
  steps: readonly Step[];
  step: Step;
  /** The snapshot that it is compared with. */
  before: string | null;
  path: string;
  onClose: () => void;
}

type Tab = "changes" | "text" | "history";
const TITLES: Record<Tab, string> = { changes: "Changes", text: "Text", history: "History" };

export function FileDialog({ session, steps, step, before, path, onClose }: Props): JSX.Element {
  const [tab, setTab] = useState<Tab>(before === null ? "text" : "changes");
  const [isRestoring, setRestoring] = useState(false);
  const difference = useReading(before && `${before} ${step.snapshot} ${path}`, (signal) => differenceOf(before!, step.snapshot, path, signal));
  const found = difference.value;
  const isKnown = before === null || found !== undefined || difference.why !== "";
  const isUnrecorded = found?.status === "unrecorded" && found.size === null;
  const isGone = !!found && (found.status === "removed" || found.path !== path || isUnrecorded);
  const listed = useRead<Page<ListedFile>>(isKnown && !isGone ? `/snapshots/${part(step.snapshot)}/files` : null, { path, limit: 1 });
  const file = listed.value?.data.find((one) => one.path === path && one.url !== null);
  const name = path.slice(path.lastIndexOf("/") + 1);
  return (
    <Dialog title={path} onClose={onClose} class="files-dialog">
      <div class="files-row">
        {(Object.keys(TITLES) as Tab[]).map((one) => (
          <button key={one} type="button" aria-pressed={tab === one} onClick={() => setTab(one)}>
            {TITLES[one]}
          </button>
        ))}
        <span class="files-note">
          at {step.name}
          {file && `, ${bytes(file.size)}`}
        </span>
        {file?.url && (
          <a href={file.url} download={name}>
            Download
          </a>
        )}
        {file && (
          <button type="button" onClick={() => setRestoring(true)}>
            Restore this file…
          </button>
        )}
      </div>
      {tab === "changes" && <FileChange before={before} {...difference} />}
      {tab === "text" && !file && (
        <p class="files-note">
          {isUnrecorded
            ? "Not recorded at this point."
            : isGone || listed.value || listed.why
              ? `At ${step.name} there is no such file.`
              : "Reading…"}
        </p>
      )}
      {tab === "text" && file && <FileText file={file} />}
      {tab === "history" && <Versions session={session} steps={steps} path={path} />}
      {isRestoring && <RestoreDialog step={step} path={path} onClose={() => setRestoring(false)} onDone={onClose} />}
    </Dialog>
  );
}

/** Pages of a comparison that are looked through for one file. */
const MOST_PAGES = 20;

/** How a file differs; null: it does not. */
async function differenceOf(before: string, after: string, path: string, signal: AbortSignal): Promise<FileDiff | null> {
  let cursor: string | null = null;
  for (let page = 0; page < MOST_PAGES; page++) {
    const { data, cursor: next }: Page<FileDiff> = await get("/diff", { a: before, b: after, text: true, limit: 200, cursor }, signal);
    const file = data.find((one) => one.path === path || one.old_path === path);
    if (file) return file;
    if (next === null) break;
    cursor = next;
  }
  return null;
}

function FileChange({ before, value, why }: Read<FileDiff | null> & { before: string | null }): JSX.Element {
  if (value) return <Difference file={value} />;
  const text = before === null ? "There is no step before this one to compare with." : value === null ? "It did not change." : why || "Comparing…";
  return <p class="files-note">{text}</p>;
}

/** Bytes of a file that are shown; all of it can be downloaded. */
const MOST = 256 * 1024;
const MOST_LINES = 5000;

function FileText({ file }: { file: ListedFile }): JSX.Element {
  const { value: text, why } = useReading(file.url, async (signal) => {
    if (file.size === 0) return "";
    const answer = await fetch(file.url!, { headers: { ...headers(), Range: `bytes=0-${MOST - 1}` }, signal });
    if (!answer.ok) throw await failure(answer);
    return textOf(new Uint8Array(await answer.arrayBuffer()));
  });
  if (text === undefined) return <p class="files-note">{why || "Reading…"}</p>;
  if (text === null) return <p class="files-note">This is not a text. Download it to look at it.</p>;
  if (text === "") return <p class="files-note">The file is empty.</p>;
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const isCut = file.size > MOST || lines.length > MOST_LINES;
  return (
    <>
      {isCut && <p class="files-note">This is the beginning of it. Download it for all of its {bytes(file.size)}.</p>}
      <div class="files-text" tabIndex={0} role="group" aria-label="Text">
        {lines.slice(0, MOST_LINES).map((line, index) => (
          <div key={index} class="files-line">
            <span class="files-number">{index + 1}</span>
            <span class="files-code">{line}</span>
          </div>
        ))}
      </div>
    </>
  );
}

/** The text of bytes; null: they are none. The last letter may be cut in two. */
function textOf(content: Uint8Array): string | null {
  if (content.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content, { stream: true });
  } catch {
    return null;
  }
}

const VERBS = { created: "+", changed: "~", deleted: "−" };
const CLASSES = { created: "added", changed: "modified", deleted: "removed" };

function Versions({ session, steps, path }: { session: string; steps: readonly Step[]; path: string }): JSX.Element {
  const { value, why } = useRead<{ data: FileVersion[] }>(at(session, "/file-history"), { path });
  if (!value) return <p class="files-note">{why || "Reading…"}</p>;
  const versions = value.data;
  if (!versions.length) return <p class="files-note">No step of the present path has this file.</p>;
  return (
    <ol class="files-versions" aria-label="History of the file">
      {versions.map((one) => {
        const step = steps.find((other) => other.checkpoint === one.checkpoint && other.position === one.position);
        return (
          <li key={`${one.position} ${one.checkpoint}`}>
            <button
              type="button"
              class="quiet files-step"
              disabled={!step}
              title={exact(one.at)}
              onClick={() => go(to.here({ step: step!.snapshot, against: null, file: path }), { replace: true })}
            >
              <span class={`files-sign files-${CLASSES[one.verb]}`} role="img" aria-label={one.verb}>
                {VERBS[one.verb]}
              </span>
              <b>{step?.name ?? agentMark(one.checkpoint) ?? one.checkpoint}</b>
              <small>
                {one.verb}
                {one.size !== null && `, ${bytes(one.size)}`}
              </small>
            </button>
          </li>
        );
      })}
    </ol>
  );
}
