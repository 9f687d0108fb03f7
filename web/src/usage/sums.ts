// Sums of model calls, for people: what is shown of them, and what must be said beside it.
import type { UsageGroup, UsageTotals } from "../api/types";
import { money, plural, short } from "../parts/numbers";

export type Measure = "cost" | "tokens" | "calls";
export const MEASURES: readonly { id: Measure; title: string }[] = [
  { id: "cost", title: "Cost" },
  { id: "tokens", title: "Tokens" },
  { id: "calls", title: "Calls" },
];

export function tokens(sums: UsageTotals): number {
  return sums.input_tokens + sums.output_tokens;
}

/** The number that a bar stands for. */
export function size(sums: UsageTotals, measure: Measure): number {
  return measure === "cost" ? Number(sums.cost) : measure === "tokens" ? tokens(sums) : sums.calls;
}

export function text(value: number, measure: Measure): string {
  return measure === "cost" ? money(value) : short(value);
}

/** As text() of its size; a cost of which nothing is known is no $0. */
export function shown(sums: UsageTotals, measure: Measure): string {
  if (measure === "cost" && sums.calls > 0 && sums.unpriced === sums.calls) return "unknown";
  return text(size(sums, measure), measure);
}

/** All of it in one line: "$1.20, 34k tokens, 12 calls". */
export function line(sums: UsageTotals): string {
  if (sums.calls === 0) return "no calls";
  const cost = shown(sums, "cost");
  return `${cost === "unknown" ? "cost unknown" : cost}, ${short(tokens(sums))} tokens, ${plural(sums.calls, "call")}`;
}

export function added(one: UsageTotals, other: UsageTotals): UsageTotals {
  const sum = (name: keyof UsageTotals) => Number(one[name]) + Number(other[name]);
  return {
    calls: sum("calls"),
    input_tokens: sum("input_tokens"),
    output_tokens: sum("output_tokens"),
    cache_read_tokens: sum("cache_read_tokens"),
    cache_write_tokens: sum("cache_write_tokens"),
    reasoning_tokens: sum("reasoning_tokens"),
    cost: String(sum("cost")),
    unpriced: sum("unpriced"),
    estimated: sum("estimated"),
  };
}

export const NOTHING: UsageTotals = {
  calls: 0,
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  cost: "0",
  unpriced: 0,
  estimated: 0,
};

const MODELS_NAMED = 3;

/** What the cost does not say: what of it is estimated, and what it lacks. */
export function notes(sums: UsageTotals, models: readonly UsageGroup[]): string[] {
  const found: string[] = [];
  const written = sums.calls - sums.estimated - sums.unpriced;
  if (sums.estimated > 0) {
    const which = written > 0 || sums.unpriced > 0 ? `The cost of ${plural(sums.estimated, "call")} is` : "The cost is";
    found.push(`${which} estimated from list prices at the time of each call.`);
  }
  if (sums.unpriced > 0) {
    const unknown = models.filter((one) => one.totals.unpriced > 0).map((one) => one.group ?? "no model named");
    const more = unknown.length - MODELS_NAMED;
    const names = unknown.slice(0, MODELS_NAMED).join(", ") + (more > 0 ? ` and ${plural(more, "other model")}` : "");
    const verb = sums.unpriced === 1 ? "has" : "have";
    found.push(`${plural(sums.unpriced, "call")} ${verb} no known price${names && `: ${names}`}. The cost is without them.`);
  }
  return found;
}
