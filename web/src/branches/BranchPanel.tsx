// The tab "Branches": the tree of the session as lanes, what can be done at a place of it, and subagents.
import { useComputed } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { SessionInfo } from "../api/types";
import { run } from "../app/commands";
import { to } from "../app/router";
import { cursor } from "../app/state";
import { told } from "../app/toast";
import { plural } from "../parts/numbers";
import { useSlowly } from "../parts/slowly";
import "./branches.css";
import { BranchTree } from "./BranchTree";
import { Family } from "./family";
import { rowsOf } from "./lanes";
import { chosenPoint, history, whyNotWrite } from "./moves";

export function BranchPanel({ session }: { session: SessionInfo }): JSX.Element {
  const family = useMemo(() => new Family(session.id), [session.id]);
  const [isRead, setRead] = useState(false);
  const version = useSlowly(`${session.hash} ${session.updated_at}`);
  useEffect(() => {
    family.load().then(() => setRead(true), told);
  }, [family, version]);
  useEffect(() => () => family.stop(), [family]);
  const rows = useComputed(() => (family.tree.value ? rowsOf(family.tree.value, family.points.value) : []));
  const tree = family.tree.value;
  if (!tree) return <p class="branches-note">{isRead ? "There is no tree." : "Reading the tree…"}</p>;
  const others = Object.keys(tree.heads).length - 1;
  return (
    <>
      <Actions session={session} />
      <BranchTree family={family} rows={rows.value} />
      {others > 0 && (
        <p class="branches-note">
          {plural(others, "other session")} {others === 1 ? "shares" : "share"} this tree.
        </p>
      )}
      <Subagents family={family} />
    </>
  );
}

/** What can be done at the entry that is chosen. */
function Actions({ session }: { session: SessionInfo }): JSX.Element {
  const why = whyNotWrite.value;
  const point = chosenPoint.value;
  const isHead = point === null || point.position === session.head.position && point.branch === session.head.branch;
  const where = point === null ? "the end" : `entry ${point.position}`;
  const moves = history.value;
  const button = (id: string, title: string, key: string, reason?: string) => (
    <button
      type="button"
      aria-disabled={reason !== undefined}
      title={reason ?? `${title} (${key})`}
      onClick={() => {
        if (reason === undefined) run(id);
      }}
    >
      {title}
    </button>
  );
  return (
    <div class="branches-actions" role="group" aria-label={`What to do at ${where}`}>
      <p class="branches-where">
        {cursor.value === null && point === null ? "At the end of the path" : `At ${where}`}
        {why !== undefined && <span> · read only</span>}
      </p>
      {button("fork-here", "Fork here", "f", why)}
      {button("rewind-here", "Rewind to here", "R", why ?? (isHead ? "The session stands here already. Choose an earlier entry." : undefined))}
      {button("compare-here", "Compare", "d")}
      {button("undo", "Undo", "u", why ?? (moves && !moves.undo ? "There is nothing to undo." : undefined))}
      {button("redo", "Redo", "U", why ?? (moves && !moves.redo ? "There is nothing to redo." : undefined))}
    </div>
  );
}

function Subagents({ family }: { family: Family }): JSX.Element | null {
  const children = Object.entries(family.tree.value?.children ?? {});
  if (!children.length) return null;
  const parents = new Map(children);
  const depth = (id: string): number => {
    let found = 0;
    for (let at = parents.get(id); at !== undefined && at !== family.id && found < 8; at = parents.get(at)) found++;
    return found;
  };
  return (
    <section aria-labelledby="branches-subagents">
      <h3 id="branches-subagents" class="branches-title">
        Subagents
      </h3>
      <ul class="branches-subagents">
        {children.map(([id]) => {
          const known = family.relatives.value.get(id);
          return (
            <li key={id} style={{ paddingLeft: `${depth(id)}rem` }}>
              <a href={to.session(id)}>{known?.title || known?.preview || id}</a>
              {known && <small> {known.status}</small>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
