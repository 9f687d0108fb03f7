// What a rewind here does not move: the agent that owns the session.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { post, session as at } from "../api/client";
import type { Moved } from "../api/trees";
import { entryId, type Head } from "../api/types";
import { current } from "../app/state";
import { CopyButton } from "../parts/Copy";

/** In the dialog of a rewind: it is the view of Clew that moves. */
export function AgentNote({ id, point }: { id: string; point: Head }): JSX.Element | null {
  const plan = useSignal<Moved | null>(null);
  const branch = current.value?.agent_branch;
  const isOwned = branch !== null && branch !== undefined && entryId(branch.head) !== entryId(point);
  useEffect(() => {
    if (!isOwned) return;
    const over = new AbortController();
    post<Moved>(at(id, "/rewind"), { to: point, dry_run: true }, { signal: over.signal }).then(
      (found) => void (plan.value = found),
      () => undefined, // then the dialog does without the command
    );
    return () => over.abort();
  }, [isOwned]);
  if (!isOwned) return null;
  const command = plan.value?.resume;
  return (
    <div class="branches-agent">
      <p>
        This moves Clew's view only: {current.value!.agent ?? "the agent"} stays at entry {branch.head.position}.
        {command !== undefined && " To continue from here in the agent, run this in a terminal on the machine of the store:"}
      </p>
      {command !== undefined && (
        <p class="branches-command">
          <code>{command}</code> <CopyButton text={command} name="Copy the command" />
        </p>
      )}
    </div>
  );
}
