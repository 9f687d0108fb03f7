// All files of a snapshot, one directory at a time: it is read when it is unfolded.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { part } from "../api/client";
import type { ListedFile } from "../api/trees";
import { bytes } from "../parts/numbers";
import { usePages } from "../parts/read";

const PAGE = 200;

interface Props {
  snapshot: string;
  onFile: (path: string) => void;
  /** The directory; empty: the root. */
  path?: string;
}

export function FileTree({ snapshot, onFile, path = "" }: Props): JSX.Element {
  const { value: files, why, more } = usePages<ListedFile>(`/snapshots/${part(snapshot)}/files`, { path, deep: false, limit: PAGE });
  if (!files) return <p class="files-note">{why || "Reading…"}</p>;
  if (!files.length) return <p class="files-note">It is empty.</p>;
  const depth = path === "" ? 0 : path.split("/").length;
  return (
    <ul class="files-tree" aria-label={path === "" ? "All files" : path}>
      {files.map((file) =>
        file.kind === "directory" ? (
          <Folder key={file.path} snapshot={snapshot} file={file} depth={depth} onFile={onFile} />
        ) : (
          <li key={file.path}>
            <button type="button" class="quiet" style={{ paddingLeft: `${0.3 + depth * 0.9}rem` }} aria-haspopup="dialog" onClick={() => onFile(file.path)}>
              <span />
              <span>
                {nameOf(file)}
                {file.kind === "link" && " (link)"}
              </span>
              <small>{bytes(file.size)}</small>
            </button>
          </li>
        ),
      )}
      {more && (
        <li>
          <button type="button" onClick={more}>
            Show more files
          </button>
        </li>
      )}
    </ul>
  );
}

function Folder({ snapshot, file, depth, onFile }: { snapshot: string; file: ListedFile; depth: number; onFile: (path: string) => void }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <button type="button" class="quiet" style={{ paddingLeft: `${0.3 + depth * 0.9}rem` }} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span>{isOpen ? "▾" : "▸"}</span>
        <span>{nameOf(file)}/</span>
      </button>
      {isOpen && <FileTree snapshot={snapshot} path={file.path} onFile={onFile} />}
    </li>
  );
}

function nameOf(file: ListedFile): string {
  return file.path.slice(file.path.lastIndexOf("/") + 1);
}
