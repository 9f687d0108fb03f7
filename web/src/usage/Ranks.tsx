// Who used most: names with bars, the largest first.
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import type { UsageTotals } from "../api/types";
import { plural } from "../parts/numbers";
import { line, type Measure, shown, size } from "./sums";

export interface Rank {
  key: string;
  name: string;
  /** Where a click leads; null: nowhere. */
  href: string | null;
  isChosen?: boolean;
  totals: UsageTotals;
}

interface Props {
  title: string;
  ranks: readonly Rank[];
  measure: Measure;
  /** Those that the server did not send. */
  leftOut?: number;
  /** How many are shown at first. */
  few?: number;
}

export function Ranks({ title, ranks, measure, leftOut = 0, few = 6 }: Props): JSX.Element | null {
  const id = useId();
  const [isWhole, setWhole] = useState(false);
  const sorted = [...ranks].sort((one, other) => size(other.totals, measure) - size(one.totals, measure));
  const most = sorted.length > 0 ? size(sorted[0]!.totals, measure) || 1 : 1;
  const some = isWhole ? sorted : sorted.slice(0, few);
  return (
    <section class="usage-card" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
      </header>
      {sorted.length === 0 && <p class="usage-none">None.</p>}
      <ol class="usage-ranks">
        {some.map((one) => (
          <li key={one.key}>
            <Row rank={one} measure={measure} part={size(one.totals, measure) / most} />
          </li>
        ))}
      </ol>
      {sorted.length > few && (
        <button type="button" class="quiet usage-more" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show fewer" : `Show ${sorted.length - few} more`}
        </button>
      )}
      {isWhole && leftOut > 0 && <p class="usage-none">{plural(leftOut, "smaller one is", "smaller ones are")} not shown.</p>}
    </section>
  );
}

function Row({ rank, measure, part }: { rank: Rank; measure: Measure; part: number }): JSX.Element {
  const inside = (
    <>
      <span class="usage-name">{rank.name}</span>
      <span class="usage-value">{shown(rank.totals, measure)}</span>
      <span class="usage-bar" aria-hidden="true">
        <span style={{ width: `${Math.max(part * 100, part > 0 ? 0.5 : 0)}%` }} />
      </span>
    </>
  );
  const told = `${rank.name}: ${line(rank.totals)}`;
  if (rank.href === null) return <span class="usage-rank" title={told}>{inside}</span>;
  return (
    <a class="usage-rank" href={rank.href} title={told} aria-current={rank.isChosen ? "true" : undefined}>
      {inside}
    </a>
  );
}
