// The files that differ between two snapshots, each with its diff when it is unfolded.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get } from "../api/client";
import type { FileDiff } from "../api/trees";
import type { Page } from "../api/types";
import { bytes, plural } from "../parts/numbers";
import { countsOf, Diff } from "./Diff";
import "./files.css";

const SIGNS = { added: "+", removed: "−", modified: "~", mode: "~", type: "~", renamed: "→" };
const PAGE = 100;

interface Props {
  a: string;
  b: string;
  /** Whether the diffs are unfolded at once, if there are few. */
  isOpen?: boolean;
  /** Opens a file by its path; without it there is no link. */
  onFile?: (path: string) => void;
}

export function Changes({ a, b, isOpen = false, onFile }: Props): JSX.Element {
  const [files, setFiles] = useState<FileDiff[] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [why, setWhy] = useState("");
  const load = async (cursor: string | null, signal?: AbortSignal) => {
    try {
      const page = await get<Page<FileDiff>>("/diff", { a, b, text: true, limit: PAGE, cursor }, signal);
      setFiles((before) => [...(cursor === null ? [] : (before ?? [])), ...page.data]);
      setNext(page.cursor);
    } catch (error) {
      if (!signal?.aborted) setWhy(whyNot(error));
    }
  };
  useEffect(() => {
    const over = new AbortController();
    setFiles(null);
    setWhy("");
    void load(null, over.signal);
    return () => over.abort();
  }, [a, b]);
  if (why) return <p class="files-note">{why}</p>;
  if (files === null) return <p class="files-note">Comparing the files…</p>;
  if (!files.length) return <p class="files-note">The files are the same.</p>;
  return (
    <div class="files-changes">
      <p class="files-note">
        {next === null ? plural(files.length, "file differs", "files differ") : `The first ${files.length} files that differ`}
      </p>
      {files.map((file) => (
        <Change key={file.path} file={file} isOpen={isOpen && files.length <= 5} onFile={onFile} />
      ))}
      {next !== null && (
        <button type="button" onClick={() => void load(next)}>
          Show more files
        </button>
      )}
    </div>
  );
}

/** Why files cannot be shown, in words. */
export function whyNot(error: unknown): string {
  if (error instanceof ApiError && error.status === 403) return "Your token may not read files. Sign in with one that has the scope files.";
  if (error instanceof ApiError && error.code === "snapshot_not_found") return "These files are not in the store any more.";
  return (error as Error).message;
}

function Change({ file, isOpen: begins, onFile }: { file: FileDiff; isOpen: boolean; onFile?: (path: string) => void }): JSX.Element {
  const [isOpen, setOpen] = useState(begins);
  const counts = file.text === null ? null : countsOf(file.text);
  return (
    <div class="files-change">
      <div class="files-change-line">
        <button type="button" class="quiet files-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
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
        {onFile && file.status !== "removed" && (
          <button type="button" class="quiet files-open" aria-label={`Open ${file.path}`} title="Open the file" onClick={() => onFile(file.path)}>
            ↗
          </button>
        )}
      </div>
      {isOpen && (file.text !== null && file.text !== "" ? <Diff text={file.text} /> : <p class="files-note">{sizes(file)}</p>)}
    </div>
  );
}

function sizes(file: FileDiff): string {
  if (file.status === "mode") return "Only its mode differs: whether it can be executed.";
  if (file.status === "renamed") return "It was moved; its content is the same.";
  const size = (count: number | null) => (count === null ? "nothing" : bytes(count));
  return `No text, or too large to compare: ${size(file.old_size)} before, ${size(file.size)} now.`;
}
