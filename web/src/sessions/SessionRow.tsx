import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { go, idOf, place, to } from "../app/router";
import { mayWrite } from "../app/state";
import { handOn, ways } from "../handoff/Handoff";
import { money, plural } from "../parts/numbers";
import { Popover } from "../parts/Popover";
import { ago, exact } from "../parts/time";
import { rename, renaming, restore, star, tagging, trash } from "./actions";
import { clock } from "./clock";
import type { SessionList } from "./list";
import { isStarred, type Row, STAR } from "./rows";
import { isUnread } from "./seen";
import { newsOf, stateOf } from "./states";

const WAYS = { resume: "Resume…", export: "Export…", share: "Share…" };

/** Milliseconds: a session that nobody says is running, but that went on so lately, is at work. */
const LATELY = 60_000;

/** What is to be seen at once: how a session stands. Other states are nothing to care about. */
export function markOf(row: Row, now: number): { name: string; sign: string; text: string } | null {
  if (row.isDamaged) return { name: "failed", sign: "!", text: "damaged" };
  if (row.isDeleted) return null;
  switch (row.status) {
    case "running":
      return { name: "running", sign: "", text: "running" };
    case "waiting":
      return { name: "waiting", sign: "?", text: "waiting for an answer" };
    case "interrupted":
      return { name: "interrupted", sign: "‖", text: "interrupted" };
    case "failed":
      return { name: "failed", sign: "!", text: "failed" };
  }
  switch (stateOf(row.states, now)?.state) {
    case "working":
      return { name: "running", sign: "", text: "working" };
    case "waiting":
      return { name: "waiting", sign: "?", text: "waiting for you" };
    case "stale":
      return { name: "stale", sign: "…", text: "its agent was at work, and has written nothing for a while" };
    case "idle":
      return null;
  }
  switch (row.status) {
    case "pending":
      return now - row.at < LATELY && row.messages > 0 ? { name: "active", sign: "", text: "active now" } : null;
    default:
      return null;
  }
}

export function Mark({ row }: { row: Row }): JSX.Element {
  const mark = markOf(row, clock.value);
  if (mark) {
    return (
      <span class={`sessions-mark sessions-mark-${mark.name}`} title={mark.text}>
        <span aria-hidden="true">{mark.sign}</span>
        <span class="unseen">{mark.text}</span>
      </span>
    );
  }
  const isNew = !row.isDeleted && place.value.id !== row.id && isUnread(row);
  return (
    <span class={isNew ? "sessions-mark sessions-mark-unread" : "sessions-mark"} title={isNew ? "new since you looked" : undefined}>
      {isNew && <span class="unseen">new</span>}
    </span>
  );
}

/** "clew · claude-code · 12 messages": what a session is, in one line. */
export function factsOf(row: Row): string {
  return [newsOf(row.news), row.project, row.agent, plural(row.messages, "message")].filter(Boolean).join(" · ");
}

/** "2 subagents, 1 fork": what is folded into a session; "": nothing. */
function belowOf(row: Row): string {
  return [row.subagents && plural(row.subagents, "subagent"), row.forks && plural(row.forks, "fork")].filter(Boolean).join(", ");
}

export function SessionRow({ row, list }: { row: Row; list: SessionList }): JSX.Element {
  void list.version.value; // a row is drawn again when the list changes: it may be unfolded, or stand elsewhere
  const depth = list.depthOf(row);
  const indent = depth ? { paddingLeft: `${0.35 + depth}rem` } : undefined;
  const isNew = !row.isDeleted && isUnread(row) && place.value.id !== row.id;
  const classes = ["sessions-row"];
  if (isNew) classes.push("is-unread");
  if (place.value.id === row.id) classes.push("is-open");
  const below = belowOf(row);
  if (below) classes.push("has-subagents");
  if (renaming.value === row.id && !row.isDeleted) {
    return (
      <div class="sessions-row" style={indent}>
        <TitleField row={row} />
      </div>
    );
  }
  const content = (
    <>
      <Mark row={row} />
      <span class="sessions-title">
        {depth === 0 && row.parent !== null && <span title="A subagent">↳ </span>}
        {row.kind && <span class="sessions-kind">{row.kind} </span>}
        {row.title}
      </span>
      <time class="sessions-time" dateTime={new Date(row.lead).toISOString()} title={exact(new Date(row.lead))}>
        {ago(new Date(row.lead), new Date(clock.value))}
        {isStarred(row) && (
          <span class="sessions-starred">
            <span aria-hidden="true">★</span>
            <span class="unseen">starred</span>
          </span>
        )}
      </time>
      <span class="sessions-facts" title={[row.workspace, row.model].filter(Boolean).join(" · ")}>
        {factsOf(row)}
      </span>
      <span class="sessions-cost">{money(row.cost)}</span>
      <Tags row={row} />
    </>
  );
  if (row.isDeleted) {
    return (
      <div class="sessions-row">
        <div class="sessions-link">{content}</div>
        {mayWrite.value && (
          <button type="button" class="sessions-restore" onClick={() => void restore(row.id)} aria-label={`Restore ${row.title}`}>
            Restore
          </button>
        )}
      </div>
    );
  }
  return (
    <div class={classes.join(" ")}>
      <a
        class="sessions-link"
        style={indent}
        href={to.session(row.id)}
        aria-current={place.value.id === row.id ? "page" : undefined}
        onDblClick={() => mayWrite.value && void (renaming.value = row.id)}
      >
        {content}
      </a>
      {below && (
        <button
          type="button"
          class="sessions-fold quiet"
          aria-expanded={list.isOpen(row.id)}
          aria-label={below}
          title={below}
          onClick={() => (list.isOpen(row.id) ? list.fold(row.id) : void list.unfold(row.id))}
        >
          <span aria-hidden="true">{list.isOpen(row.id) ? "▾" : "▸"} {row.subagents + row.forks}</span>
        </button>
      )}
      {mayWrite.value && (
        <span class="sessions-actions">
          <button
            type="button"
            class="quiet sessions-star"
            aria-pressed={isStarred(row)}
            aria-label={`Star ${row.title}`}
            title="Star (.)"
            onClick={() => void star(row)}
          >
            {isStarred(row) ? "★" : "☆"}
          </button>
          <Popover label={`Actions for ${row.title}`} name={`Actions for ${row.title}`} face="⋯" class="quiet">
            {(close) => (
              <ul class="popover-list">
                {([
                  ["Rename", () => void (renaming.value = row.id)],
                  ["Tags…", () => void (tagging.value = row)],
                  [isStarred(row) ? "Take the star away" : "Star", () => void star(row)],
                  ["Compare…", () => go(compareWith(row.id))],
                  ...ways().map((way) => [WAYS[way], () => handOn(way, row)] as const),
                  ["Move to the trash", () => void trash(row)],
                ] as const).map(([title, act]) => (
                  <li key={title}>
                    <button type="button" onClick={() => (close(), act())}>
                      {title}
                    </button>
                  </li>
                ))}
              </ul>
            )}
          </Popover>
        </span>
      )}
    </div>
  );
}

/** The comparison with the session that is open, or that was chosen for one already; else the other is chosen there. */
function compareWith(id: string): string {
  const other = place.peek().id ?? idOf(place.peek().query.get("a") ?? "");
  return to.compare(other === null || other === id ? { a: id } : { a: other, b: id });
}

function Tags({ row }: { row: Row }): JSX.Element | null {
  const tags = row.tags.filter((one) => one !== STAR);
  if (tags.length === 0) return null;
  return (
    <span class="sessions-tags">
      {tags.slice(0, 2).map((one) => (
        <span key={one} class="sessions-tag">
          {one}
        </span>
      ))}
      {tags.length > 2 && <span class="sessions-tag" title={tags.join(", ")}>+{tags.length - 2}</span>}
    </span>
  );
}

/** The title, in its place. Enter keeps it, Escape does not. */
function TitleField({ row }: { row: Row }): JSX.Element {
  const own = useRef<HTMLInputElement>(null);
  const isOver = useRef(false);
  useEffect(() => own.current!.select(), []);
  const end = (isKept: boolean) => {
    if (isOver.current) return;
    isOver.current = true;
    const title = own.current!.value;
    const link = own.current!.closest("li");
    renaming.value = null;
    if (isKept && title.trim() !== (row.isAuto ? "" : row.title)) void rename(row.id, title);
    requestAnimationFrame(() => link?.querySelector("a")?.focus());
  };
  return (
    <input
      ref={own}
      class="sessions-name"
      aria-label="Title"
      placeholder={row.title}
      value={row.isAuto ? "" : row.title}
      maxLength={500}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Enter") end(true);
        if (event.key === "Escape") end(false);
      }}
      onBlur={() => end(true)}
    />
  );
}
