// The model calls of a session, as far as a chart can show them.
import { get, session as at } from "../api/client";
import type { UsageRecord, UsageReport, UsageTotals } from "../api/types";

export const MOST = 2000;
const PAGE = 1000;

export interface Calls {
  records: readonly UsageRecord[];
  /** How many come before them, and what those cost and used together. */
  before: number;
  costBefore: number;
  tokensBefore: number;
  totals: UsageTotals;
}

const costOf = (one: UsageRecord) => Number(one.cost ?? 0);
export const tokensOf = (one: UsageRecord) => one.input_tokens + one.output_tokens;

/** The last calls of a session; what came before them is known as a sum. */
export async function readCalls(id: string, known: Calls | null, signal: AbortSignal): Promise<Calls> {
  const { totals } = await get<UsageReport>(at(id, "/usage"), {}, signal);
  // The calls of a session are numbered from 1 on.
  const last = known?.records.at(-1)?.number ?? 0;
  let after = Math.max(totals.calls - MOST, last);
  let records = last > 0 && after === last ? [...known!.records] : [];
  for (;;) {
    const page = await get<{ data: UsageRecord[] }>(at(id, "/usage/records"), { after, limit: PAGE }, signal);
    records.push(...page.data);
    if (page.data.length < PAGE) break;
    after = page.data.at(-1)!.number;
  }
  records = records.slice(-MOST);
  const sum = (each: (one: UsageRecord) => number) => records.reduce((found, one) => found + each(one), 0);
  return {
    records,
    totals,
    before: Math.max(0, totals.calls - records.length),
    costBefore: Math.max(0, Number(totals.cost) - sum(costOf)),
    tokensBefore: Math.max(0, totals.input_tokens + totals.output_tokens - sum(tokensOf)),
  };
}

/** Of each call: what was used up to it. */
export function running(calls: Calls, of: "cost" | "tokens"): number[] {
  let sum = of === "cost" ? calls.costBefore : calls.tokensBefore;
  return calls.records.map((one) => (sum += of === "cost" ? costOf(one) : tokensOf(one)));
}

/** Those that cost most, or used most where no price is known. */
export function dearest(calls: Calls, count: number): UsageRecord[] {
  const weight = (one: UsageRecord) => [costOf(one), tokensOf(one)] as const;
  return [...calls.records]
    .sort((one, other) => weight(other)[0] - weight(one)[0] || weight(other)[1] - weight(one)[1])
    .slice(0, count);
}
