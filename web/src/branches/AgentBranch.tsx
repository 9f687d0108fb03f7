// What is new on the branch of the agent that owns a session.
import type { JSX } from "preact";
import { run } from "../app/commands";
import { current, mayWrite } from "../app/state";
import { plural } from "../parts/numbers";
import "./agent.css";

/** Above a transcript that its agent has left behind. */
export function AgentNews({ isElsewhere }: { isElsewhere: boolean }): JSX.Element | null {
  const branch = current.value?.agent_branch;
  if (!branch?.new || isElsewhere) return null;
  return (
    <p class="transcript-notice branches-news" role="status">
      {plural(branch.new, "new message")} on the agent's branch.{" "}
      {mayWrite.value && (
        <button type="button" title="Go to the agent's branch (A)" onClick={() => run("to-agent")}>
          Go there
        </button>
      )}
    </p>
  );
}
