// The command with which an agent goes on with a session. The page starts nothing.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get, session as at } from "../api/client";
import { headOf } from "../api/trees";
import type { ResumeView } from "../api/types";
import { Dialog } from "../app/Dialog";
import { place } from "../app/router";
import { cursor } from "../app/state";
import { CopyButton } from "../parts/Copy";
import type { Target } from "../sessions/actions";
import { isShown, Of } from "./Of";

interface Props {
  session: Target;
  onClose: () => void;
}

export function ResumeDialog({ session, onClose }: Props): JSX.Element {
  const here = isShown(session) ? (cursor.value ?? place.value.query.get("at")) : null;
  const point = headOf(here ?? "");
  const where = point ? `entry ${point.position}` : here;
  const isHere = useSignal(false);
  const found = useSignal<ResumeView | null>(null);
  const problem = useSignal("");
  useEffect(() => {
    const over = new AbortController();
    get<ResumeView>(at(session.id, "/resume-command"), { at: isHere.value ? here : null }, over.signal).then(
      (view) => void (found.value = view),
      (error: Error) => {
        if (!over.signal.aborted) problem.value = error.message;
      },
    );
    return () => over.abort();
  }, [isHere.value]);
  const view = found.value;
  return (
    <Dialog title="Resume" class="handoff" onClose={onClose}>
      <Of session={session} />
      {here !== null && (
        <div class="handoff-choice" role="group" aria-label="From where">
          <label>
            <input type="radio" name="from" checked={!isHere.value} onChange={() => void (isHere.value = false)} /> From the end
          </label>
          <label>
            <input type="radio" name="from" checked={isHere.value} onChange={() => void (isHere.value = true)} /> From{" "}
            {where}, in a copy
          </label>
        </div>
      )}
      {problem.value && <p role="alert">{problem.value}</p>}
      {view === null && !problem.value && <p role="status">Looking…</p>}
      {view !== null && (
        <>
          {view.command !== null ? (
            <>
              <p>Run this in a terminal on the machine of the store:</p>
              <Line command={view.command} name="Copy the command" isMain />
            </>
          ) : (
            !view.note && <p>There is no command for this session.</p>
          )}
          {view.directory !== null && (
            <p class="handoff-note">
              Directory: <code>{view.directory}</code>
            </p>
          )}
          {view.note && <p class="handoff-note">{view.note}</p>}
          {view.agents.length > 0 && (
            <details class="handoff-more" open={view.command === null}>
              <summary>Go on with another agent</summary>
              {view.agents.map(({ agent, command }) => (
                <div key={agent}>
                  <h3>{agent}</h3>
                  <Line command={command} name={`Copy the command for ${agent}`} />
                </div>
              ))}
            </details>
          )}
        </>
      )}
    </Dialog>
  );
}

function Line({ command, name, isMain = false }: { command: string; name: string; isMain?: boolean }): JSX.Element {
  return (
    <div class="handoff-command">
      <pre tabIndex={0} aria-label="Command">
        <code>{command}</code>
      </pre>
      {isMain ? (
        <CopyButton text={command} name={name} class="primary">
          Copy
        </CopyButton>
      ) : (
        <CopyButton text={command} name={name} />
      )}
    </div>
  );
}
