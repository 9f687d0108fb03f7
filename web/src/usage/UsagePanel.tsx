// What a session used: with its subagents, by model, and call by call. It grows as the session does.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get, me, session as at } from "../api/client";
import type { Page, SessionInfo, UsageReport, UsageTotals } from "../api/types";
import { to } from "../app/router";
import { told } from "../app/toast";
import { plural } from "../parts/numbers";
import { Figures } from "./Figures";
import { Ranks } from "./Ranks";
import { type Calls, readCalls } from "./records";
import { RunningTotal } from "./RunningTotal";
import { NOTHING } from "./sums";
import "./usage.css";

const SUBAGENTS = 50;
const PAUSE = 4000;

interface Found {
  whole: UsageReport;
  calls: Calls;
  subagents: readonly SessionInfo[];
  hasMore: boolean;
}

export function UsagePanel({ session }: { session: SessionInfo }): JSX.Element {
  const found = useSignal<Found | null>(null);
  const { id } = session;
  useEffect(() => {
    const over = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    // A model call is written down after its message, and tells of no change: so it is asked for.
    const again = async () => {
      if (!document.hidden) {
        const known = found.peek();
        const whole = await readSums(id, over.signal);
        if (known?.whole.totals.calls !== whole.totals.calls) found.value = await load(id, whole, known, over.signal);
      }
    };
    const forever = (told: (error: unknown) => void) => {
      again()
        .catch(told)
        .finally(() => {
          if (!over.signal.aborted) timer = setTimeout(forever, PAUSE, () => undefined);
        });
    };
    forever(told);
    return () => {
      over.abort();
      clearTimeout(timer);
    };
  }, [id, session.updated_at]);

  const shown = found.value;
  if (shown === null) return <p class="usage-none" role="status">Adding up…</p>;
  const { whole, calls, subagents } = shown;
  if (whole.totals.calls === 0) return <p class="usage-none">No model calls are written down for this session.</p>;
  return (
    <div class="usage-panel">
      <Figures totals={whole.totals} models={whole.groups} />
      {subagents.length > 0 && <p class="usage-note">With {shown.hasMore ? "all its subagents" : plural(subagents.length, "subagent")}.</p>}
      <Ranks
        title="Models"
        measure="cost"
        ranks={whole.groups.map(({ group, totals }) => ({
          key: group ?? "",
          name: group ?? "no model named",
          href: group === null ? null : to.usage({ model: group }),
          totals,
        }))}
      />
      {subagents.length > 0 && (
        <Ranks
          title="Subagents"
          measure="cost"
          ranks={[
            { key: "", name: "This session itself", href: null, totals: calls.totals },
            ...subagents.map((one) => ({
              key: one.id,
              name: one.title ?? one.preview ?? one.id,
              href: to.session(one.id, { panel: "usage" }),
              totals: sumsOf(one),
            })),
          ]}
        />
      )}
      <RunningTotal calls={calls} />
    </div>
  );
}

/** By model, with subagents: a token that is bound to some sessions may not ask for these. */
function readSums(id: string, signal: AbortSignal): Promise<UsageReport> {
  const isBound = me.value!.workspace !== null || me.value!.tags.length > 0;
  return get<UsageReport>(at(id, "/usage"), { by: "model", subagents: isBound ? null : true }, signal);
}

async function load(id: string, whole: UsageReport, known: Found | null, signal: AbortSignal): Promise<Found> {
  const [calls, subagents] = await Promise.all([
    readCalls(id, known?.calls ?? null, signal),
    get<Page<SessionInfo>>("/sessions", { parent: id, usage: true, limit: SUBAGENTS }, signal),
  ]);
  return { whole, calls, subagents: subagents.data, hasMore: subagents.cursor !== null };
}

function sumsOf({ usage }: SessionInfo): UsageTotals {
  if (!usage) return NOTHING;
  const { cost, input_tokens, output_tokens, calls } = usage;
  return { ...NOTHING, cost: cost ?? "0", input_tokens, output_tokens, calls, unpriced: cost === null ? calls : 0 };
}
