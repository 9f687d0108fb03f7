// The lanes: one row for each prompt, checkpoint and head, with its piece of the drawing at the left.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { entryId } from "../api/types";
import { go, to } from "../app/router";
import { current, cursor, isNarrow, showsPanel } from "../app/state";
import { agentMark } from "../parts/checkpoints";
import { plural } from "../parts/numbers";
import { exact } from "../parts/time";
import type { Family } from "./family";
import { type Row, type Shown, type State, shownOf } from "./lanes";
import { chosenPoint } from "./moves";

const LANE = 14;
const HEIGHT = matchMedia("(pointer: coarse)").matches ? 44 : 30;
const RADIUS = 4.5;
/** Lanes further right share the last place. */
const MOST_DRAWN = 7;
const x = (lane: number): number => 8 + Math.min(lane, MOST_DRAWN) * LANE;

/** The keys of "Fork here", "Rewind to here" and "Compare". */
const AT_AN_ENTRY = ["f", "R", "d"];

interface Props {
  family: Family;
  rows: readonly Row[];
}

export function BranchTree({ family, rows }: Props): JSX.Element {
  const own = useRef<HTMLUListElement>(null);
  const folded = useSignal<ReadonlyMap<string, boolean>>(new Map());
  const focused = useSignal<string | null>(null);
  const shown = useMemo(() => shownOf(rows, (row) => folded.value.get(row.id) ?? null), [rows, folded.value]);
  const tree = family.tree.value!;
  const head = entryId(tree.heads[tree.session] ?? { branch: "", position: -1 });
  const chosen = chosenPoint.value ? entryId(chosenPoint.value) : head;
  const present = nearest(shown, chosen);
  const indexOf = (id: string | null) => shown.findIndex((one) => one.row.id === id);
  const inTab = Math.max(0, indexOf(focused.value) >= 0 ? indexOf(focused.value) : indexOf(present));
  const width = useMemo(() => x(Math.max(0, ...shown.map((one) => one.row.lane))) + 10, [shown]);
  const range = useRange(own, shown.length);
  useEffect(() => reveal(own.current!, indexOf(present)), [present]);

  const setOpen = (row: Row, isOpen: boolean) => {
    folded.value = new Map(folded.peek()).set(row.id, isOpen);
    if (isOpen) void family.loadBranch(row.leaf);
  };
  const open = (row: Row) => {
    focused.value = row.id;
    const isPresent = row.leaf === head || row.state === "here";
    const hash = row.id === "start" ? "" : row.id;
    go(to.here({ at: isPresent ? null : row.leaf }, hash));
    cursor.value = hash || null;
    if (isNarrow.peek()) showsPanel.value = false; // it lies over what is to be read
    if (!isPresent) void family.loadBranch(row.leaf);
  };
  const focus = (asked: number) => {
    const index = Math.max(0, Math.min(shown.length - 1, asked));
    focused.value = shown[index]!.row.id;
    reveal(own.current!, index);
    const take = () => {
      const found = own.current?.querySelector<HTMLElement>(`[data-index="${index}"]`);
      found?.focus({ preventScroll: true });
      return !!found;
    };
    // At once, or the next key would still go to the row before; a row that is not drawn yet is in the next frame.
    if (!take()) requestAnimationFrame(take);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const index = Number((event.target as HTMLElement).dataset.index ?? NaN);
    const one = shown[index];
    if (!one) return;
    const { row, isFolded } = one;
    const keys: Record<string, () => void> = {
      ArrowDown: () => focus(index + 1),
      ArrowUp: () => focus(index - 1),
      Home: () => focus(0),
      End: () => focus(shown.length - 1),
      ArrowRight: () => (isFolded ? setOpen(row, true) : focus(index + 1)),
      ArrowLeft: () => (isFolded === false ? setOpen(row, false) : focus(parentOf(shown, index))),
      Enter: () => open(row),
      " ": () => open(row),
    };
    // Keys that act at an entry act at this row, which has the ring.
    if (AT_AN_ENTRY.includes(event.key)) return open(row);
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };

  const drawn = shown.map((one, index) => ({ ...one, index })).slice(range.first, range.last);
  if (shown[inTab] && (inTab < range.first || inTab >= range.last)) drawn.push({ ...shown[inTab], index: inTab });
  return (
    <ul ref={own} class="branches-tree" role="tree" aria-label="Branches" style={{ height: `${shown.length * HEIGHT}px` }} onKeyDown={onKeyDown}>
      {drawn.map(({ row, isFolded, index }) => (
        <li
          key={row.id}
          role="treeitem"
          aria-level={row.lane + 1}
          aria-posinset={index + 1}
          aria-setsize={shown.length}
          aria-expanded={isFolded === null ? undefined : !isFolded}
          aria-selected={present === row.id}
          class={`branches-row branches-${row.state}${present === row.id ? " branches-chosen" : ""}`}
          data-index={index}
          tabIndex={inTab === index ? 0 : -1}
          style={{ height: `${HEIGHT}px`, transform: `translateY(${index * HEIGHT}px)` }}
          onClick={(event) => {
            if (!(event.target as Element).closest("a, button")) open(row);
          }}
        >
          <Lanes
            width={width}
            lane={row.lane}
            beside={row.beside}
            from={row.from}
            mark={markOf(row)}
            hasAbove={row.hasAbove}
            hasBelow={row.hasBelow && !isFolded}
          />
          <span class="branches-text" title={titleOf(row)}>
            {named(row).map((point) => (
              <span key={point.name} class="branches-checkpoint">
                <bdi>{point.name}</bdi>
                {point.snapshot && <span class="branches-files"> with files</span>}
              </span>
            ))}
            {textOf(row)}
          </span>
          {row.checkpoints.some((point) => agentMark(point.name) !== null) && (
            <small class="branches-recorded" title="The agent recorded files here" role="img" aria-label="files">
              ◆
            </small>
          )}
          {row.heads.map((id) =>
            id === tree.session ? (
              <span key={id} class="branches-now">
                present
              </span>
            ) : (
              <a key={id} class="branches-session" href={to.session(id)} title={`Open ${id}`} tabIndex={inTab === index ? 0 : -1}>
                {nameOf(family, id)}
              </a>
            ),
          )}
          {isFolded !== null && (
            <button
              type="button"
              class="quiet branches-fold"
              tabIndex={-1}
              aria-label={isFolded ? "Unfold this branch" : "Fold this branch"}
              onClick={() => setOpen(row, isFolded)}
            >
              {isFolded ? "▸" : "▾"}
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

// -- only what is in sight is in the document: all rows have one height

const BEYOND = 10;

const frameOf = (list: HTMLElement): HTMLElement => list.closest<HTMLElement>(".panel-content")!;

/** Which rows are in sight. */
function useRange(own: { current: HTMLUListElement | null }, count: number): { first: number; last: number } {
  const [range, setRange] = useState({ first: 0, last: 40 });
  useEffect(() => {
    const list = own.current!;
    const frame = frameOf(list);
    const look = () => {
      const above = frame.getBoundingClientRect().top - list.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(above / HEIGHT) - BEYOND);
      const last = Math.ceil((above + frame.clientHeight) / HEIGHT) + BEYOND;
      setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
    };
    look();
    const observer = new ResizeObserver(look);
    observer.observe(frame);
    frame.addEventListener("scroll", look);
    return () => {
      observer.disconnect();
      frame.removeEventListener("scroll", look);
    };
  }, [count]);
  return range;
}

/** Scroll until a row is in sight. What can be done stays above the rows. */
function reveal(list: HTMLElement, index: number): void {
  if (index < 0) return;
  const frame = frameOf(list);
  const actions = frame.querySelector<HTMLElement>(".branches-actions")?.offsetHeight ?? 0;
  const top = list.getBoundingClientRect().top - frame.getBoundingClientRect().top + index * HEIGHT;
  if (top < actions) frame.scrollTop += top - actions;
  else if (top + HEIGHT > frame.clientHeight) frame.scrollTop += top + HEIGHT - frame.clientHeight;
}

/** A fork has the title of its base until it gets its own: then the id says more. */
function nameOf(family: Family, id: string): string {
  const title = family.relatives.value.get(id)?.title;
  return title && title !== current.value?.title ? title : id;
}

/** The checkpoints of a row that have names for people. */
function named(row: Row): Row["checkpoints"] {
  return row.checkpoints.filter((point) => agentMark(point.name) === null);
}

const MARKS: Record<string, string> = { compaction: "Compaction", truncation: "Truncation" };

function textOf(row: Row): string {
  if (row.point) return [MARKS[row.point.kind], row.point.text].filter(Boolean).join(": ");
  if (row.id === "start") return "Start";
  if (named(row).length || row.heads.length) return "";
  return row.entries > 1 ? plural(row.entries, "entry", "entries") : `Entry ${row.position}`;
}

const STATES: Record<State, string> = {
  here: "on the present path",
  elsewhere: "on the path of another session",
  left: "left behind by a rewind",
};

function titleOf(row: Row): string {
  const when = row.point?.at ?? row.checkpoints[0]?.created_at;
  return [row.point?.text, row.position < 0 ? "" : `entry ${row.position}`, when && exact(when), STATES[row.state]].filter(Boolean).join("\n");
}

/** The row of an entry, or of the last one before it on the same branch. */
function nearest(shown: readonly Shown[], id: string): string | null {
  const dot = id.lastIndexOf(".");
  const branch = id.slice(0, dot + 1);
  const position = Number(id.slice(dot + 1));
  let found: Row | null = null;
  for (const one of shown) {
    if (one.row.id === id) return id;
    const isBefore = one.row.id.startsWith(branch) && one.row.position <= position;
    if (dot > 0 && isBefore && (found === null || one.row.position > found.position)) found = one.row;
  }
  return found?.id ?? null;
}

/** The row from which the branch of another one leaves. */
function parentOf(shown: readonly Shown[], index: number): number {
  const { lane } = shown[index]!.row;
  const found = shown.findLastIndex((one, at) => at < index && one.row.lane < lane);
  return found < 0 && lane > 0 ? index : Math.max(0, found);
}

// -- the drawing

type Mark = "prompt" | "checkpoint" | "compaction" | "head" | "plain";

function markOf(row: Row): Mark {
  if (named(row).length) return "checkpoint";
  if (row.point) return row.point.kind in MARKS ? "compaction" : "prompt";
  return row.heads.length ? "head" : "plain";
}

interface LanesProps {
  width: number;
  lane: number;
  beside: readonly boolean[];
  from: number | null;
  mark: Mark;
  hasAbove: boolean;
  hasBelow: boolean;
}

function Lanes({ width, lane, beside, from, mark, hasAbove, hasBelow }: LanesProps): JSX.Element {
  const middle = HEIGHT / 2;
  const at = x(lane);
  return (
    <svg class="branches-lanes" width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
      {beside.map((goesOn, index) => goesOn && <path key={index} class={index === 0 ? "branches-main" : undefined} d={`M${x(index)} 0V${HEIGHT}`} />)}
      {from !== null && <path class="branches-own" d={`M${x(from)} 0C${x(from)} ${middle} ${x(from)} ${middle} ${at} ${middle}`} />}
      {hasAbove && <path class="branches-own" d={`M${at} 0V${middle}`} />}
      {hasBelow && <path class="branches-own" d={`M${at} ${middle}V${HEIGHT}`} />}
      <Point mark={mark} at={at} middle={middle} />
    </svg>
  );
}

function Point({ mark, at, middle }: { mark: Mark; at: number; middle: number }): JSX.Element {
  switch (mark) {
    case "checkpoint":
      return <path class="branches-point branches-diamond" d={`M${at} ${middle - 6}l6 6l-6 6l-6 -6z`} />;
    case "compaction":
      return <rect class="branches-point" x={at - 6} y={middle - 2} width="12" height="4" rx="1" />;
    case "head":
      return <circle class="branches-point branches-ring" cx={at} cy={middle} r={RADIUS} />;
    case "plain":
      return <circle class="branches-point" cx={at} cy={middle} r="2.5" />;
    default:
      return <circle class="branches-point" cx={at} cy={middle} r={RADIUS} />;
  }
}
