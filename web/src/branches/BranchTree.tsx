// The lanes: one row for each prompt, checkpoint and head, with its piece of the drawing at the left.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { entryId } from "../api/types";
import { go, to } from "../app/router";
import { current, cursor } from "../app/state";
import { plural } from "../parts/numbers";
import { exact } from "../parts/time";
import type { Family } from "./family";
import { type Gap, type Row, type Shown, type State, shownOf } from "./lanes";
import { chosenPoint } from "./moves";

const LANE = 14;
const HEIGHT = matchMedia("(pointer: coarse)").matches ? 44 : 30;
const RADIUS = 4.5;
/** Lanes further right share the last place. */
const MOST_DRAWN = 7;
const x = (lane: number): number => 8 + Math.min(lane, MOST_DRAWN) * LANE;

interface Props {
  family: Family;
  rows: readonly Row[];
}

export function BranchTree({ family, rows }: Props): JSX.Element {
  const own = useRef<HTMLUListElement>(null);
  const folded = useSignal<ReadonlyMap<string, boolean>>(new Map());
  const gaps = useSignal<ReadonlySet<string>>(new Set());
  const focused = useSignal<string | null>(null);
  const shown = shownOf(rows, (row) => folded.value.get(row.id) ?? null, gaps.value);
  const tree = family.tree.value!;
  const head = entryId(tree.heads[tree.session] ?? { branch: "", position: -1 });
  const chosen = chosenPoint.value ? entryId(chosenPoint.value) : head;
  const ids = shown.map((one) => ("gap" in one ? `gap ${one.gap}` : one.row.id));
  const present = nearest(shown, chosen);
  const inTab = focused.value !== null && ids.includes(focused.value) ? focused.value : (present ?? ids[0]);
  const width = x(Math.max(0, ...shown.map((one) => ("gap" in one ? one.lane : one.row.lane)))) + 10;

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
    if (!isPresent) void family.loadBranch(row.leaf);
  };
  const focus = (index: number) => {
    const id = ids[Math.max(0, Math.min(ids.length - 1, index))];
    if (id === undefined) return;
    focused.value = id;
    own.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(id)}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = (event.target as Element).closest("[data-row]");
    const index = ids.indexOf(target?.getAttribute("data-row") ?? "");
    const one = shown[index];
    if (!one || event.target !== target) return;
    const row = "gap" in one ? null : one.row;
    const isFolded = "gap" in one ? null : one.isFolded;
    switch (event.key) {
      case "ArrowDown":
        focus(index + 1);
        break;
      case "ArrowUp":
        focus(index - 1);
        break;
      case "Home":
        focus(0);
        break;
      case "End":
        focus(ids.length - 1);
        break;
      case "ArrowRight":
        if (row && isFolded) setOpen(row, true);
        else focus(index + 1);
        break;
      case "ArrowLeft":
        if (row && isFolded === false) setOpen(row, false);
        else focus(parentOf(shown, index));
        break;
      case "Enter":
      case " ":
        if (row) open(row);
        else if ("gap" in one) gaps.value = new Set(gaps.peek()).add(one.gap);
        break;
      default:
        return;
    }
    event.preventDefault();
  };

  return (
    <ul ref={own} class="branches-tree" role="tree" aria-label="Branches" onKeyDown={onKeyDown}>
      {shown.map((one) => {
        if ("gap" in one) {
          const id = `gap ${one.gap}`;
          return (
            <li
              key={id}
              role="treeitem"
              aria-level={one.lane + 1}
              class={`branches-row branches-${one.state}`}
              data-row={id}
              tabIndex={inTab === id ? 0 : -1}
              onClick={() => void (gaps.value = new Set(gaps.peek()).add(one.gap))}
            >
              <Lanes width={width} lane={one.lane} beside={one.beside} from={null} state={one.state} mark="gap" hasAbove hasBelow />
              <span class="branches-more">Show {plural(one.rows, "more point")}</span>
            </li>
          );
        }
        const { row, isFolded } = one;
        return (
          <li
            key={row.id}
            role="treeitem"
            aria-level={row.lane + 1}
            aria-expanded={isFolded === null ? undefined : !isFolded}
            aria-selected={present === row.id}
            class={`branches-row branches-${row.state}${present === row.id ? " branches-chosen" : ""}`}
            data-row={row.id}
            tabIndex={inTab === row.id ? 0 : -1}
            onClick={(event) => {
              if (!(event.target as Element).closest("a, button")) open(row);
            }}
          >
            <Lanes
              width={width}
              lane={row.lane}
              beside={row.beside}
              from={row.from}
              state={row.state}
              mark={markOf(row)}
              hasAbove={row.hasAbove}
              hasBelow={row.hasBelow && !isFolded}
            />
            <span class="branches-text" title={titleOf(row)}>
              {row.checkpoints.map((point) => (
                <span key={point.name} class="branches-checkpoint">
                  <bdi>{point.name}</bdi>
                  {point.snapshot && <span class="branches-files"> with files</span>}
                </span>
              ))}
              {textOf(row)}
            </span>
            {row.heads.map((id) =>
              id === tree.session ? (
                <span key={id} class="branches-now">
                  present
                </span>
              ) : (
                <a key={id} class="branches-session" href={to.session(id)} title={`Open ${id}`} tabIndex={inTab === row.id ? 0 : -1}>
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
        );
      })}
    </ul>
  );
}

/** A fork has the title of its base until it gets its own: then the id says more. */
function nameOf(family: Family, id: string): string {
  const title = family.relatives.value.get(id)?.title;
  return title && title !== current.value?.title ? title : id;
}

function textOf(row: Row): string {
  if (row.point) return row.point.kind === "compaction" ? `Compaction: ${row.point.text}` : row.point.text;
  if (row.id === "start") return "Start";
  if (row.checkpoints.length || row.heads.length) return "";
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
function nearest(shown: readonly (Shown | Gap)[], id: string): string | null {
  const dot = id.lastIndexOf(".");
  const branch = id.slice(0, dot + 1);
  const position = Number(id.slice(dot + 1));
  let found: Row | null = null;
  for (const one of shown) {
    if ("gap" in one) continue;
    if (one.row.id === id) return id;
    const isBefore = one.row.id.startsWith(branch) && one.row.position <= position;
    if (dot > 0 && isBefore && (found === null || one.row.position > found.position)) found = one.row;
  }
  return found?.id ?? null;
}

/** The row from which the branch of another one leaves. */
function parentOf(shown: readonly (Shown | Gap)[], index: number): number {
  const lane = (one: Shown | Gap) => ("gap" in one ? one.lane : one.row.lane);
  const own = lane(shown[index]!);
  for (let at = index - 1; at >= 0; at--) if (lane(shown[at]!) < own) return at;
  return own === 0 ? 0 : index;
}

// -- the drawing

type Mark = "prompt" | "checkpoint" | "compaction" | "head" | "gap" | "plain";

function markOf(row: Row): Mark {
  if (row.checkpoints.length) return "checkpoint";
  if (row.point) return row.point.kind === "compaction" ? "compaction" : "prompt";
  return row.heads.length ? "head" : "plain";
}

interface LanesProps {
  width: number;
  lane: number;
  beside: readonly boolean[];
  from: number | null;
  state: State;
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
      {hasBelow && <path class={mark === "gap" ? "branches-own branches-dashed" : "branches-own"} d={`M${at} ${middle}V${HEIGHT}`} />}
      <Point mark={mark} at={at} middle={middle} />
    </svg>
  );
}

function Point({ mark, at, middle }: { mark: Mark; at: number; middle: number }): JSX.Element | null {
  switch (mark) {
    case "gap":
      return null;
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
