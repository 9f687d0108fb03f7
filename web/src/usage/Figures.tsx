// The sums in large figures, and what must be said beside them.
import type { JSX } from "preact";
import type { UsageGroup, UsageTotals } from "../api/types";
import { short } from "../parts/numbers";
import { notes, shown } from "./sums";

export function Figures({ totals, models }: { totals: UsageTotals; models: readonly UsageGroup[] }): JSX.Element {
  const cached = totals.input_tokens > 0 ? Math.round((100 * totals.cache_read_tokens) / totals.input_tokens) : 0;
  const isEstimate = totals.estimated > 0;
  return (
    <>
      <dl class="usage-figures">
        <Figure name="Cost" value={shown(totals, "cost")} note={isEstimate ? "estimated" : totals.unpriced > 0 ? "partly known" : ""} />
        <Figure name="Input tokens" value={short(totals.input_tokens)} note={cached > 0 ? `${cached} % from the cache` : ""} />
        <Figure
          name="Output tokens"
          value={short(totals.output_tokens)}
          note={totals.reasoning_tokens > 0 ? `${short(totals.reasoning_tokens)} of reasoning` : ""}
        />
        <Figure name="Calls" value={short(totals.calls)} note="" />
      </dl>
      {notes(totals, models).map((note) => (
        <p key={note} class="usage-note">
          {note}
        </p>
      ))}
    </>
  );
}

function Figure({ name, value, note }: { name: string; value: string; note: string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <b>{value}</b>
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}
