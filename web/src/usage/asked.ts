// What the usage view is asked to show: all of it is in the address.
import type { Changes } from "../app/router";
import { momentOf } from "../parts/time";
import { dayOf, dayOfFilter, later, zone } from "./days";
import { MEASURES, type Measure } from "./sums";

export const PERIODS = ["7", "30", "90", "all"] as const;
export type Period = (typeof PERIODS)[number];
const USUAL: Period = "30";

export interface Asked {
  /** Days up to today that the chart shows. */
  period: Period;
  measure: Measure;
  /** A choice within the period, as the address has it. `until` is the first day that is not in it. */
  since: string | null;
  until: string | null;
  model: string | null;
  agent: string | null;
  project: string | null;
  tag: string[];
}

export function read(query: URLSearchParams): Asked {
  const text = (name: string) => query.get(name) || null;
  return {
    period: PERIODS.find((one) => one === query.get("period")) ?? USUAL,
    measure: MEASURES.find((one) => one.id === query.get("show"))?.id ?? "cost",
    since: text("since"),
    until: text("until"),
    model: text("model"),
    agent: text("agent"),
    project: text("project"),
    tag: query.getAll("tag").filter((one) => one !== ""),
  };
}

/** A period: the choice within another one is over. */
export function periodChange(period: Period): Changes {
  return { period: period === USUAL ? null : period, since: null, until: null };
}

/** The first day that the chart shows; null: whatever is the first one with calls. */
export function firstDay(asked: Asked, today = dayOf(new Date())): string | null {
  if (asked.period === "all") return null;
  const first = later(today, 1 - Number(asked.period));
  const chosen = dayOfFilter(asked.since);
  return chosen !== null && chosen < first ? chosen : first;
}

const filters = (asked: Asked) => ({
  model: asked.model,
  agent: asked.agent,
  project: asked.project,
  tag: asked.tag,
});

/** Of the chart: the whole period. */
export function ofPeriod(asked: Asked) {
  return { ...filters(asked), since: momentOf(firstDay(asked)), tz: zone };
}

/** Of the sums: what is chosen of it. */
export function ofChoice(asked: Asked) {
  const since = asked.since === null && asked.until === null ? firstDay(asked) : asked.since;
  return { ...filters(asked), since: momentOf(since), until: momentOf(asked.until) };
}
