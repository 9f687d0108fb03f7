// The commands of moves; what happens is shown before it happens.
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { entryId } from "../api/types";
import { useCommands } from "../app/commands";
import { go, place, to } from "../app/router";
import { current } from "../app/state";
import { lazy } from "../parts/lazy";
import { useSlowly } from "../parts/slowly";
import { asked, forkHere, readHistory, rewindHere, step, toAgent, tried } from "./moves";

const ForkDialog = lazy(() => import("./ForkDialog").then((found) => found.ForkDialog));
const RewindDialog = lazy(() => import("./MoveDialogs").then((found) => found.RewindDialog));
const StepDialog = lazy(() => import("./MoveDialogs").then((found) => found.StepDialog));

export function Moves(): JSX.Element | null {
  const shown = current.value;
  const version = useSlowly(`${shown?.hash} ${shown?.updated_at}`);
  useEffect(() => {
    if (shown) readHistory(shown.id).catch(() => undefined);
  }, [shown?.id, version]);
  useEffect(() => () => void (asked.value = null), [shown?.id]);
  useCommands(() => [
    { id: "fork-here", title: "Fork here", group: "Branches", keys: ["f"], run: () => tried(forkHere()) },
    { id: "rewind-here", title: "Rewind to here", group: "Branches", keys: ["R"], run: rewindHere },
    { id: "undo", title: "Undo the last rewind or change of the path", group: "Branches", keys: ["u"], run: () => tried(step("undo")) },
    { id: "redo", title: "Redo what was undone", group: "Branches", keys: ["U"], run: () => tried(step("redo")) },
    { id: "to-agent", title: "Go to the agent's branch", group: "Branches", keys: ["A"], run: () => tried(toAgent()) },
    { id: "compare-here", title: "Compare this path with another one", group: "Branches", keys: ["d"], run: compareHere },
  ]);
  const open = asked.value;
  if (!open || !shown) return null;
  const close = () => void (asked.value = null);
  if (open.kind === "fork") return <ForkDialog id={shown.id} point={open.point ?? shown.head} isEnd={open.point === null} onClose={close} />;
  return open.kind === "rewind" ? (
    <RewindDialog key={entryId(open.point)} id={shown.id} point={open.point} onClose={close} />
  ) : (
    <StepDialog what={open.kind} plan={open.plan} onClose={close} />
  );
}

/** The branch that is read beside the present path; else the present path beside one that is chosen then. */
function compareHere(): void {
  const shown = current.peek();
  if (!shown) return;
  const branch = place.peek().query.get("at");
  go(to.compare(branch === null ? { a: shown.id } : { a: shown.id, b: shown.id, b_at: branch }));
}
