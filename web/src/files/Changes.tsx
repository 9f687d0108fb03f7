// The files that differ between two snapshots, each with its diff when it is unfolded.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { FileDiff } from "../api/trees";
import { bytes, plural } from "../parts/numbers";
import { usePages } from "../parts/read";
import { countsOf, Diff } from "./Diff";
import "./files.css";

const SIGNS = { added: "+", removed: "−", modified: "~", mode: "~", type: "~", renamed: "→", unrecorded: "?" };
const PAGE = 100;

interface Props {
  a: string;
  b: string;
  /** Whether the diffs are unfolded at once, if there are few. */
  isOpen?: boolean;
  /** Opens a file by its path; without it, its diff is unfolded here. */
  onFile?: (path: string) => void;
}

export function Changes({ a, b, isOpen = false, onFile }: Props): JSX.Element {
  const { value: found, why, more } = usePages<FileDiff>("/diff", { a, b, text: true, limit: PAGE });
  if (!found) return <p class="files-note">{why || "Comparing the files…"}</p>;
  const files = found.filter((one) => one.status !== "unrecorded");
  if (!found.length) return <p class="files-note">The files are the same.</p>;
  return (
    <div class="files-changes">
      <p class="files-note">
        {more !== null
          ? `The first ${files.length} files that differ`
          : files.length
            ? plural(files.length, "file differs", "files differ")
            : "No file recorded at both points differs."}
      </p>
      {files.map((file) => (
        <Change key={file.path} file={file} isOpen={isOpen && files.length <= 5} onFile={onFile} />
      ))}
      <Unrecorded files={found.filter((one) => one.status === "unrecorded")} />
      {why && <p class="files-note">{why}</p>}
      {more && (
        <button type="button" onClick={more}>
          Show more files
        </button>
      )}
    </div>
  );
}

/** Files that one of the two does not record: nobody knows whether they were there. */
function Unrecorded({ files }: { files: readonly FileDiff[] }): JSX.Element | null {
  if (!files.length) return null;
  return (
    <details class="files-unrecorded">
      <summary>{plural(files.length, "file is", "files are")} recorded at one of the two points only</summary>
      <p class="files-note">An agent records only the files that it changes, and begins anew when it restarts.</p>
      <ul>
        {files.map((file) => (
          <li key={file.path}>
            <code>{file.path}</code>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Change({ file, isOpen: begins, onFile }: { file: FileDiff; isOpen: boolean; onFile?: (path: string) => void }): JSX.Element {
  const [isOpen, setOpen] = useState(begins);
  const counts = file.text === null ? null : countsOf(file.text);
  return (
    <div class="files-change">
      <button
        type="button"
        class="quiet files-toggle"
        aria-expanded={onFile ? undefined : isOpen}
        aria-haspopup={onFile ? "dialog" : undefined}
        onClick={() => (onFile ? onFile(file.path) : setOpen(!isOpen))}
      >
        <span class={`files-sign files-${file.status}`} role="img" aria-label={file.status}>
          {SIGNS[file.status]}
        </span>{" "}
        <span class="files-path">
          {file.old_path !== null && `${file.old_path} → `}
          {file.path}
        </span>
        {counts && (
          <span class="files-counts">
            {counts.added > 0 && <span class="files-added">+{counts.added}</span>}{" "}
            {counts.removed > 0 && <span class="files-removed">−{counts.removed}</span>}
          </span>
        )}
      </button>
      {isOpen && <Difference file={file} />}
    </div>
  );
}

/** How a file differs: line by line, or in words. */
export function Difference({ file }: { file: FileDiff }): JSX.Element {
  return file.text ? <Diff text={file.text} /> : <p class="files-note">{sizes(file)}</p>;
}

function sizes(file: FileDiff): string {
  if (file.status === "unrecorded") return file.size === null ? "Not recorded at this point." : "Not recorded at the point that it is compared with.";
  if (file.status === "mode") return "Only its mode differs: whether it can be executed.";
  if (file.status === "renamed") return "It was moved; its content is the same.";
  const size = (count: number | null) => (count === null ? "nothing" : bytes(count));
  return `No text, or too large to compare: ${size(file.old_size)} before, ${size(file.size)} now.`;
}
