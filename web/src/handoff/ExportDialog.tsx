// A session as a file.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { api, isShare, send, session as at, withQuery } from "../api/client";
import { Dialog } from "../app/Dialog";
import { told } from "../app/toast";
import { DownloadIcon } from "../parts/icons";
import type { Target } from "../sessions/actions";
import { Of } from "./Of";

type Option = "tools" | "thinking" | "whole";

interface Format {
  id: string;
  name: string;
  what: string;
  /** What it can leave out or take along, beside secrets. */
  options: readonly Option[];
}

const FORMATS: readonly Format[] = [
  { id: "html", name: "HTML", what: "A page that anyone can open. It needs nothing else.", options: ["tools", "thinking", "whole"] },
  { id: "markdown", name: "Markdown", what: "Text for notes, issues and other models.", options: ["tools", "thinking", "whole"] },
  { id: "json", name: "JSON", what: "The messages, for programs.", options: ["whole"] },
  { id: "jsonl", name: "Clew (JSONL)", what: "All of it with every branch. Another store can import it.", options: [] },
];
const AGENTS = ["claude-code", "codex", "gemini-cli", "ggcode", "opencode", "openrouter", "ductwork", "pi", "picoclaw"];

interface Props {
  session: Target;
  onClose: () => void;
}

export function ExportDialog({ session, onClose }: Props): JSX.Element {
  const shared = isShare();
  const format = useSignal("html");
  const chosen = useSignal({ tools: true, thinking: true, whole: false, redact: true });
  const known = FORMATS.find((one) => one.id === format.value);
  const has = (name: Option) => known?.options.includes(name) ?? false;
  const given = chosen.value;
  const query = {
    format: format.value,
    tools: has("tools") && !given.tools ? false : null,
    thinking: has("thinking") && !given.thinking ? false : null,
    whole: has("whole") && !shared && given.whole ? true : null,
    redact: !shared && given.redact ? true : null, // a share says itself whether secrets are replaced
  };
  const path = at(session.id, "/export");
  const formats = shared ? FORMATS.filter((one) => one.id !== "jsonl") : FORMATS;
  const box = (name: keyof typeof given, text: string) => (
    <label>
      <input
        type="checkbox"
        checked={given[name]}
        onChange={(event) => void (chosen.value = { ...given, [name]: event.currentTarget.checked })}
      />{" "}
      {text}
    </label>
  );
  return (
    <Dialog title="Export" class="handoff" onClose={onClose}>
      <Of session={session} />
      <fieldset class="handoff-formats">
        <legend class="unseen">Format</legend>
        {formats.map((one) => (
          <label key={one.id}>
            <input type="radio" name="format" checked={format.value === one.id} onChange={() => void (format.value = one.id)} />
            <span>
              <b>{one.name}</b>
              <small>{one.what}</small>
            </span>
          </label>
        ))}
        {!shared && (
          <label>
            <input
              type="radio"
              name="format"
              checked={known === undefined}
              onChange={() => {
                if (known !== undefined) format.value = AGENTS[0]!;
              }}
            />
            <span>
              <b>For an agent</b>
              <small>As the agent itself keeps it.</small>
              {known === undefined && (
                <select aria-label="Agent" value={format.value} onChange={(event) => void (format.value = event.currentTarget.value)}>
                  {AGENTS.map((one) => (
                    <option key={one}>{one}</option>
                  ))}
                </select>
              )}
            </span>
          </label>
        )}
      </fieldset>
      <div class="handoff-choice" role="group" aria-label="What is in it">
        {has("tools") && box("tools", "Tool calls and their results")}
        {has("thinking") && box("thinking", "What the model thought")}
        {has("whole") && !shared && box("whole", "All branches")}
        {!shared && box("redact", "Replace secrets that are found")}
      </div>
      <div class="handoff-end">
        {shared ? (
          <button type="button" class="primary" onClick={() => void download(path, query).catch(told)}>
            <DownloadIcon /> Download
          </button>
        ) : (
          <a class="button primary" href={api + withQuery(path, query)} download="">
            <DownloadIcon /> Download
          </a>
        )}
      </div>
    </Dialog>
  );
}

const NAME = /filename="([^"]+)"/;

/** A link cannot send the token of a share: the file is read first, and saved then. */
async function download(path: string, query: Record<string, string | boolean | null>): Promise<void> {
  const answer = await send("GET", path, { query });
  const name = NAME.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? "session";
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
