// How the sum of a session grew, call by call. A click leads to the entry that the call made.
import type { JSX } from "preact";
import { go, to } from "../app/router";
import { money, plural, short } from "../parts/numbers";
import { ago, exact } from "../parts/time";
import { type Calls, dearest, running, tokensOf } from "./records";

const WIDTH = 300;
const HEIGHT = 100;
const DEAREST = 5;

export function RunningTotal({ calls }: { calls: Calls }): JSX.Element | null {
  const { records, totals } = calls;
  if (records.length === 0) return null;
  const measure = totals.unpriced === totals.calls ? "tokens" : "cost";
  const values = running(calls, measure);
  const text = (value: number) => (measure === "cost" ? money(value) : `${short(value)} tokens`);
  const top = values.at(-1)! || 1;
  const x = (index: number) => (values.length === 1 ? WIDTH : (index / (values.length - 1)) * WIDTH);
  const y = (value: number) => HEIGHT - (value / top) * HEIGHT;
  const path = values.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const begun = records[0]!.at;
  const ended = records.at(-1)!.at;
  const told = `Running total over ${plural(records.length, "call")}: from ${text(values[0]!)} to ${text(values.at(-1)!)}.`;
  const onClick = (event: MouseEvent & { currentTarget: SVGSVGElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    const index = Math.round(((event.clientX - box.left) / box.width) * (records.length - 1));
    const entry = records[Math.max(0, Math.min(index, records.length - 1))]?.entry;
    if (entry) go(to.here({}, entry));
  };
  return (
    <section class="usage-card" aria-labelledby="usage-running">
      <header>
        <h2 id="usage-running">Running total</h2>
        <small>{text(values.at(-1)!)}</small>
      </header>
      <svg class="usage-line" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={told} onClick={onClick}>
        <path class="usage-area" d={`${path}L${WIDTH} ${HEIGHT}L${x(0)} ${HEIGHT}Z`} />
        <path d={path} />
      </svg>
      <div class="usage-ends" aria-hidden="true">
        <span title={exact(begun)}>{ago(begun)}</span>
        <span title={exact(ended)}>{ago(ended)}</span>
      </div>
      {calls.before > 0 && (
        <p class="usage-note">
          The last {plural(records.length, "call")} of {totals.calls.toLocaleString("en-US")}.
        </p>
      )}
      {records.length > 1 && (
        <>
          <h3 class="usage-sub">The most expensive calls</h3>
          <ol class="usage-ranks">
            {dearest(calls, DEAREST).map((one) => {
              const inside = (
                <>
                  <span class="usage-name">
                    {one.model ?? "no model named"} <small>{short(tokensOf(one))} tokens</small>
                  </span>
                  <span class="usage-value">{one.cost === null ? "unknown" : money(one.cost)}</span>
                </>
              );
              return (
                <li key={one.number}>
                  {one.entry === null ? (
                    <span class="usage-rank" title={exact(one.at)}>
                      {inside}
                    </span>
                  ) : (
                    <a class="usage-rank" href={to.here({}, one.entry)} title={exact(one.at)}>
                      {inside}
                    </a>
                  )}
                </li>
              );
            })}
          </ol>
        </>
      )}
    </section>
  );
}
