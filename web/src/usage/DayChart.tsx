// Bars over time: each is a link to the calls of its day, week or month.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { UsageGroup, UsageTotals } from "../api/types";
import { to } from "../app/router";
import { startOf } from "../parts/time";
import { later, monthOf, named, weekOf } from "./days";
import { added, line, type Measure, NOTHING, shown, size, text } from "./sums";

interface Bar {
  /** Its first day, and the first one behind it. */
  since: string;
  until: string;
  name: string;
  totals: UsageTotals;
}

const MOST_DAYS = 92;
const MOST_WEEKS = 92;

/** One bar for each day, week or month from the first day to the last, those without calls too. */
function barsOf(groups: readonly UsageGroup[], first: string, last: string): { bars: Bar[]; unit: string } {
  const days = Math.round((startOf(last).getTime() - startOf(first).getTime()) / 86_400_000) + 1;
  const unit = days <= MOST_DAYS ? "day" : days <= 7 * MOST_WEEKS ? "week" : "month";
  const beginning = unit === "day" ? (day: string) => day : unit === "week" ? weekOf : monthOf;
  const next = (day: string) => (unit === "month" ? monthOf(later(day, 31)) : later(day, unit === "week" ? 7 : 1));
  const sums = new Map<string, UsageTotals>();
  for (const { group, totals } of groups) {
    if (group === null) continue;
    const key = beginning(group);
    sums.set(key, added(sums.get(key) ?? NOTHING, totals));
  }
  const bars: Bar[] = [];
  for (let since = beginning(first); since <= last; since = next(since)) {
    const name =
      unit === "day" ? named(since, { weekday: "short", day: "numeric", month: "short" })
      : unit === "week" ? `week of ${named(since)}`
      : named(since, { month: "long" });
    bars.push({ since, until: next(since), name, totals: sums.get(since) ?? NOTHING });
  }
  return { bars, unit };
}

/** A round number that is not smaller. */
function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.999) ?? value;
}

interface Props {
  groups: readonly UsageGroup[];
  first: string;
  last: string;
  measure: Measure;
  /** The choice within it: first day, and the first one behind it. */
  chosen: { since: string | null; until: string | null };
}

export function DayChart({ groups, first, last, measure, chosen }: Props): JSX.Element {
  const [pointed, setPointed] = useState<number | null>(null);
  const { bars, unit } = barsOf(groups, first, last);
  const top = roundUp(Math.max(...bars.map((bar) => size(bar.totals, measure))));
  const hasChoice = chosen.since !== null || chosen.until !== null;
  const isChosen = (bar: Bar) =>
    hasChoice && (chosen.since === null || bar.until > chosen.since) && (chosen.until === null || bar.since < chosen.until);
  const title = `${measure === "cost" ? "Cost" : measure === "tokens" ? "Tokens" : "Calls"} by ${unit}`;
  const seen = pointed === null ? undefined : bars[pointed];
  // One stop of the Tab key for all bars; the arrows go from bar to bar.
  const stop = Math.min(pointed ?? bars.length - 1, bars.length - 1);
  const onKeyDown = (event: KeyboardEvent) => {
    const links = [...(event.currentTarget as Element).querySelectorAll("a")];
    const at = links.indexOf(document.activeElement as HTMLAnchorElement);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: links.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    links[Math.max(0, Math.min(next, links.length - 1))]?.focus();
  };
  const ticks = bars.length > 8 ? [0, Math.floor((bars.length - 1) / 2), bars.length - 1] : bars.map((_, index) => index);
  return (
    <section class="usage-card" aria-labelledby="usage-days">
      <header>
        <h2 id="usage-days">{title}</h2>
        <small aria-hidden="true">{seen ? `${seen.name}: ${line(seen.totals)}` : `Choose a ${unit} to look into it`}</small>
      </header>
      <div class="usage-plot" onMouseLeave={() => setPointed(null)}>
        {[1, 0.5].map((part) => (
          <span key={part} class="usage-grid" style={{ bottom: `${part * 100}%` }} aria-hidden="true">
            {text(top * part, measure)}
          </span>
        ))}
        <ol class="usage-bars" aria-labelledby="usage-days" onKeyDown={onKeyDown}>
          {bars.map((bar, index) => (
            <li key={bar.since} class={!hasChoice || isChosen(bar) ? undefined : "usage-off"}>
              <a
                href={isChosen(bar) ? to.here({ since: null, until: null }) : to.here({ since: bar.since, until: bar.until })}
                tabIndex={index === stop ? 0 : -1}
                aria-label={`${bar.name}: ${line(bar.totals)}`}
                aria-current={isChosen(bar) ? "true" : undefined}
                onMouseEnter={() => setPointed(index)}
                onFocus={() => setPointed(index)}
                onBlur={() => setPointed(null)}
              >
                <span style={{ height: `${(size(bar.totals, measure) / top) * 100}%` }} />
              </a>
            </li>
          ))}
        </ol>
      </div>
      <div class="usage-ticks" aria-hidden="true">
        {ticks.map((index) => (
          <span key={index}>{named(bars[index]!.since, unit === "month" ? { month: "short" } : undefined)}</span>
        ))}
      </div>
      <details class="usage-table">
        <summary>Show as a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">{unit[0]!.toUpperCase() + unit.slice(1)}</th>
              <th scope="col">Cost</th>
              <th scope="col">Input tokens</th>
              <th scope="col">Output tokens</th>
              <th scope="col">Calls</th>
            </tr>
          </thead>
          <tbody>
            {bars
              .filter((bar) => bar.totals.calls > 0)
              .map((bar) => (
                <tr key={bar.since}>
                  <th scope="row">
                    <a href={to.here({ since: bar.since, until: bar.until })}>{bar.name}</a>
                  </th>
                  <td>{shown(bar.totals, "cost")}</td>
                  <td>{bar.totals.input_tokens.toLocaleString("en-US")}</td>
                  <td>{bar.totals.output_tokens.toLocaleString("en-US")}</td>
                  <td>{bar.totals.calls.toLocaleString("en-US")}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </details>
    </section>
  );
}
