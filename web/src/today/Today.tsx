// The first screen: what runs, what waits for you, what you asked last, and what today cost.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get } from "../api/client";
import type { UsageReport } from "../api/types";
import { useCommands } from "../app/commands";
import { to } from "../app/router";
import { titled } from "../app/state";
import { money, plural } from "../parts/numbers";
import { ago, exact, startOf } from "../parts/time";
import { clock } from "../sessions/clock";
import type { Row } from "../sessions/rows";
import { dayOf } from "../usage/days";
import { useFresh } from "../usage/fresh";
import { begun, canNotify, isRead, newest, notifies, setNotifies, stale, waits, working } from "./watching";
import "./today.css";

const PROMPTS = 6;
/** Milliseconds between two sums of what today cost. */
const REST = 10_000;

export function Today(): JSX.Element {
  const cost = useCost();
  useCommands(() => [
    {
      id: "notify",
      title: notifies.value ? "Do not notify me when an agent waits" : "Notify me when an agent waits",
      group: "General",
      run: () => void setNotifies(!notifies.peek()),
    },
  ]);
  useEffect(() => void (document.title = titled()), []); // another view may have had a title of its own
  const rows = newest.value;
  const began = startOf(dayOf(new Date(clock.value))).getTime();
  const today = rows.filter((row) => row.at >= began).length;
  if (isRead.value && rows.length === 0) return <Welcome />;
  const prompts = rows.filter((row) => row.prompt !== "").slice(0, PROMPTS);
  return (
    <div class="today" aria-busy={!isRead.value}>
      <h1>Today</h1>
      <dl class="today-figures">
        <Figure name="Waiting for you" value={String(waits.value.length)} isLoud={waits.value.length > 0} />
        <Figure name="Working" value={String(working.value.length)} />
        <Figure name="Sessions" value={`${today}${today === rows.length && rows.length >= 50 ? "+" : ""}`} />
        <Figure name="Cost" value={cost === null ? "–" : money(cost) || "–"} href={to.usage({ period: "7" })} />
      </dl>
      <List title="Waiting for you" rows={waits.value} since={begun} class="today-waits" />
      <List title="Working" rows={working.value} since={(row) => row.at} />
      <List title="Silent for a while, with work open" rows={stale.value} since={begun} />
      <section class="today-prompts">
        <h2>Last prompts</h2>
        <ul>
          {prompts.map((row) => (
            <li key={row.id}>
              <a href={to.session(row.id)}>
                <q dir="auto">{row.prompt}</q>
                <small>{[row.title === row.prompt ? "" : row.title, row.project, row.agent].filter(Boolean).join(" · ")}</small>
                <Time at={row.at} />
              </a>
            </li>
          ))}
        </ul>
      </section>
      {canNotify && (
        <label class="today-setting">
          <input type="checkbox" checked={notifies.value} onChange={(event) => void setNotifies(event.currentTarget.checked)} />
          Notify me in this browser when an agent waits
        </label>
      )}
      <p class="today-keys">
        <kbd>/</kbd> searches in all sessions, <kbd>?</kbd> shows all keys, <kbd>Ctrl</kbd> <kbd>K</kbd> finds commands and sessions.
      </p>
    </div>
  );
}

/** What was spent today, on the calendar of this browser; null: not known yet. */
function useCost(): string | null {
  const cost = useSignal<string | null>(null);
  const fresh = useFresh(() => REST);
  useEffect(() => {
    const over = new AbortController();
    const since = startOf(dayOf(new Date())).toISOString();
    get<UsageReport>("/usage", { since, by: "model" }, over.signal).then(
      (found) => void (cost.value = found.totals.cost),
      () => undefined, // a token may not see costs: the rest is shown
    );
    return () => over.abort();
  }, [fresh]);
  return cost.value;
}

function Figure({ name, value, href, isLoud = false }: { name: string; value: string; href?: string; isLoud?: boolean }): JSX.Element {
  return (
    <div class={isLoud ? "is-loud" : undefined}>
      <dt>{name}</dt>
      <dd>{href === undefined ? value : <a href={href}>{value}</a>}</dd>
    </div>
  );
}

interface ListProps {
  title: string;
  rows: readonly Row[];
  since: (row: Row) => number;
  class?: string;
}

function List({ title, rows, since, ...rest }: ListProps): JSX.Element | null {
  if (rows.length === 0) return null;
  return (
    <section {...rest}>
      <h2>{title}</h2>
      <ul>
        {rows.map((row) => (
          <li key={row.id}>
            <a href={to.session(row.id)}>
              <b dir="auto">{row.title}</b>
              <small>{[row.project, row.agent, plural(row.messages, "message")].filter(Boolean).join(" · ")}</small>
              <Time at={since(row)} />
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Time({ at }: { at: number }): JSX.Element {
  const when = new Date(at);
  return (
    <time dateTime={when.toISOString()} title={exact(when)}>
      {ago(when, new Date(clock.value))}
    </time>
  );
}

function Welcome(): JSX.Element {
  return (
    <div class="welcome">
      <h1>No sessions yet</h1>
      <p>
        When some are imported, <code>clew serve --sync</code> keeps following the agents that write them.
      </p>
      <p>
        <kbd>?</kbd> shows all keys, <kbd>Ctrl</kbd> <kbd>K</kbd> finds commands and sessions.
      </p>
    </div>
  );
}
