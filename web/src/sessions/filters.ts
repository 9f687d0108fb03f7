// Which sessions are listed: all of it is in the address.
import { computed } from "@preact/signals";
import { type Changes, go, place, to } from "../app/router";
import { momentOf as localMoment } from "../parts/time";
import type { Row } from "./rows";

export interface Filters {
  project: string | null;
  agent: string | null;
  model: string | null;
  status: string | null;
  tag: string[];
  /** As the server takes them: a day, a moment, or how long ago (`7d`). */
  since: string | null;
  until: string | null;
  min_cost: string | null;
  deleted: boolean;
}

export const NO_FILTER: Changes = {
  project: null,
  agent: null,
  model: null,
  status: null,
  tag: null,
  since: null,
  until: null,
  min_cost: null,
};

function read(query: URLSearchParams): Filters {
  const text = (name: string) => query.get(name) || null;
  return {
    project: text("project"),
    agent: text("agent"),
    model: text("model"),
    status: text("status"),
    tag: query.getAll("tag").filter((one) => one !== ""),
    since: text("since"),
    until: text("until"),
    min_cost: text("min_cost"),
    deleted: query.get("deleted") === "true",
  };
}

/** As text, so that an address that differs elsewhere changes nothing here. */
const written = computed(() => JSON.stringify(read(place.value.query)));
export const filters = computed<Filters>(() => JSON.parse(written.value) as Filters);
export const words = computed(() => (place.value.query.get("q") ?? "").trim());

export const isFiltered = computed(() => {
  const { deleted: _, tag, ...rest } = filters.value;
  return tag.length > 0 || Object.values(rest).some((one) => one !== null);
});

/** Change the filters: the address, without a step in its history for each letter or click. */
export function setFilter(changes: Changes): void {
  go(to.here(changes), { replace: true });
}

/** Subagents stand below their parents, unless they are what is asked for. */
export function showsSubagents(asked: Filters): boolean {
  return asked.deleted || asked.agent !== null || asked.model !== null || asked.status !== null || asked.tag.length > 0;
}

/** Forks and copies stand below the session that they began with, unless a filter may fit them and not that one. */
export function foldsForks(asked: Filters): boolean {
  return !showsSubagents(asked) && asked.since === null && asked.until === null && asked.min_cost === null;
}

const UNITS: Record<string, number> = { m: 60, h: 3600, d: 86400, w: 604800 };

/** The moment that a filter names, in milliseconds; NaN: somebody typed something else. */
export function momentOf(text: string, now: number): number {
  const ago = /^(\d+)([mhdw])$/.exec(text);
  return ago ? now - Number(ago[1]) * UNITS[ago[2]!]! * 1000 : Date.parse(localMoment(text)!);
}

/** Filters as the server takes them: a day begins where the reader is, and not in UTC. */
export function inThisZone<T extends Pick<Filters, "since" | "until">>(asked: T): T {
  return { ...asked, since: localMoment(asked.since), until: localMoment(asked.until) };
}

/** Whether a session is one of those that the server would list. */
export function matches(row: Row, asked: Filters, now = Date.now()): boolean {
  return (
    row.isDeleted === asked.deleted &&
    (asked.project === null || row.project === asked.project) &&
    (asked.agent === null || row.agent === asked.agent) &&
    (asked.model === null || row.model === asked.model) &&
    (asked.status === null || row.status === asked.status) &&
    asked.tag.every((one) => row.tags.includes(one)) &&
    !(asked.since !== null && row.at < momentOf(asked.since, now)) &&
    !(asked.until !== null && row.at >= momentOf(asked.until, now)) &&
    !(asked.min_cost !== null && !((row.cost ?? -1) >= Number(asked.min_cost)))
  );
}
