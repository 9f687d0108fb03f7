// What was used, by day, model, agent, project and session. Everything leads further, and the address tells what is shown.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { type ApiError, get, me, session as at } from "../api/client";
import type { SessionInfo, UsageReport } from "../api/types";
import { useCommands } from "../app/commands";
import { go, place, to } from "../app/router";
import { told } from "../app/toast";
import { type Asked, firstDay, ofChoice, ofPeriod, PERIODS, periodChange, read } from "./asked";
import { DayChart } from "./DayChart";
import { dayOf, dayOfFilter, later, named } from "./days";
import { Figures } from "./Figures";
import { type Rank, Ranks } from "./Ranks";
import { MEASURES } from "./sums";
import { useFresh } from "./fresh";
import "./usage.css";

const GROUPED = ["model", "agent", "project", "session"] as const;
type Grouped = (typeof GROUPED)[number];
type Reports = Partial<Record<"day" | Grouped, UsageReport>>;

const MOST = 50;
const MOST_SESSIONS = 20; // their titles are read one by one
/** Milliseconds after a change; a large store rests ten times as long as its sums take. */
const SOON = 5000;
const REST = 10;
const NAMES = {
  model: { title: "Models", none: "no model named" },
  agent: { title: "Agents", none: "no agent named" },
  project: { title: "Projects", none: "no project" },
  session: { title: "Sessions", none: "unknown" },
} as const;
const PERIOD_NAMES = { "7": "7 days", "30": "30 days", "90": "90 days", all: "All" } as const;

export function UsageView(): JSX.Element {
  const asked = read(place.value.query);
  const written = JSON.stringify({ ...asked, measure: null });
  const reports = useSignal<Reports>({});
  const isReading = useSignal(true);
  const took = useRef(0);
  const fresh = useFresh(() => Math.max(SOON, REST * took.current));

  useEffect(() => {
    const over = new AbortController();
    isReading.value = true;
    const begun = performance.now();
    load(asked, over.signal, (found) => void (reports.value = { ...reports.peek(), ...found }))
      .catch(told)
      .finally(() => {
        if (over.signal.aborted) return;
        isReading.value = false;
        took.current = performance.now() - begun;
      });
    return () => over.abort();
  }, [written, fresh]);
  useEffect(() => void (document.title = "Usage · Clew"), []);
  useCommands(() => [
    ...PERIODS.map((one) => ({
      id: `usage-${one}`,
      title: one === "all" ? "Usage: all time" : `Usage: the last ${one} days`,
      group: "Usage",
      run: () => go(to.here(periodChange(one))),
    })),
    ...MEASURES.map((one) => ({
      id: `usage-${one.id}`,
      title: `Usage: show ${one.title.toLowerCase()}`,
      group: "Usage",
      run: () => go(to.here({ show: one.id === "cost" ? null : one.id }), { replace: true }),
    })),
  ]);

  const { day, model } = reports.value;
  return (
    <div class="usage" aria-busy={isReading.value}>
      <header class="usage-head">
        <h1>Usage</h1>
        <div class="usage-choice" role="group" aria-label="Period">
          {PERIODS.map((one) => (
            <a key={one} href={to.here(periodChange(one))} aria-current={one === asked.period ? "true" : undefined}>
              {PERIOD_NAMES[one]}
            </a>
          ))}
        </div>
        <div class="usage-choice" role="group" aria-label="What to show">
          {MEASURES.map((one) => (
            <a
              key={one.id}
              href={to.here({ show: one.id === "cost" ? null : one.id })}
              aria-current={one.id === asked.measure ? "true" : undefined}
            >
              {one.title}
            </a>
          ))}
        </div>
      </header>
      <Chosen asked={asked} />
      {day && model ? (
        <Content asked={asked} day={day} model={model} reports={reports.value} />
      ) : (
        <p class="usage-none" role="status">
          {isReading.value ? "Adding up…" : ""}
        </p>
      )}
    </div>
  );
}

/** Read all reports; each is told as it comes: sums over many sessions take longer than those over days. */
async function load(asked: Asked, signal: AbortSignal, tell: (found: Reports) => void): Promise<void> {
  // A token that is bound to some sessions may not ask for subagents, which may be another's.
  const isBound = me.value!.workspace !== null || me.value!.tags.length > 0;
  const read = async (by: "day" | Grouped, query: object) => {
    tell({ [by]: await get<UsageReport>("/usage", { ...query, by }, signal) });
  };
  await Promise.all([
    read("day", ofPeriod(asked)).catch((error: ApiError) => {
      if (error.status !== 422) throw error;
      // The machine of the server may have no table of time zones: days of UTC are better than none.
      return read("day", { ...ofPeriod(asked), tz: null });
    }),
    ...GROUPED.map((by) => {
      const isSession = by === "session";
      return read(by, { ...ofChoice(asked), limit: isSession ? MOST_SESSIONS : MOST, subagents: isSession && !isBound ? true : null });
    }),
  ]);
}

interface Shown {
  asked: Asked;
  day: UsageReport;
  model: UsageReport;
  reports: Reports;
}

function Content({ asked, day, model, reports }: Shown): JSX.Element {
  const titles = useTitles(reports.session);
  const today = dayOf(new Date());
  const days = day.groups.map((one) => one.group!);
  const first = firstDay(asked, today) ?? days[0] ?? today;
  const last = days.length > 0 && days.at(-1)! > today ? days.at(-1)! : today;
  const ranks = (by: Grouped, report: UsageReport): Rank[] =>
    report.groups.map(({ group, totals }) => {
      const isChosen = by !== "session" && group !== null && asked[by] === group;
      return {
        key: group ?? "",
        name: (by === "session" ? titles.get(group ?? "") : group) || group || NAMES[by].none,
        href: group === null ? null : by === "session" ? to.session(group, { panel: "usage" }) : to.here({ [by]: isChosen ? null : group }),
        isChosen,
        totals,
      };
    });
  return (
    <>
      <Figures totals={model.totals} models={model.groups} />
      {day.totals.calls === 0 ? (
        <Empty asked={asked} />
      ) : (
        <>
          <DayChart
            groups={day.groups}
            first={first}
            last={last}
            measure={asked.measure}
            chosen={{ since: dayOfFilter(asked.since), until: dayOfFilter(asked.until) }}
          />
          <div class="usage-cards">
            {GROUPED.map((by) => {
              const report = reports[by];
              return (
                report && (
                  <Ranks key={by} title={NAMES[by].title} ranks={ranks(by, report)} measure={asked.measure} leftOut={report.left_out} />
                )
              );
            })}
          </div>
        </>
      )}
    </>
  );
}

function Empty({ asked }: { asked: Asked }): JSX.Element {
  const hasFilter = [asked.since, asked.until, asked.model, asked.agent, asked.project, ...asked.tag].some((one) => one !== null);
  return (
    <div class="usage-empty">
      <p>{asked.period === "all" && !hasFilter ? "No session has written down a model call yet." : "No model calls here."}</p>
      {asked.period !== "all" && <a href={to.here(periodChange("all"))}>Look at all time</a>}
    </div>
  );
}

/** The filters, each with a way to take it off. */
function Chosen({ asked }: { asked: Asked }): JSX.Element | null {
  const since = dayOfFilter(asked.since);
  const until = dayOfFilter(asked.until);
  const last = until === null ? null : later(until, -1);
  const chips: { name: string; text: string; href: string }[] = [];
  if (since !== null || until !== null) {
    const text =
      since !== null && since === last ? named(since)
      : since === null ? `until ${named(last!)}`
      : last === null ? `since ${named(since)}`
      : `${named(since)} – ${named(last)}`;
    chips.push({ name: "date", text, href: to.here({ since: null, until: null }) });
  }
  for (const name of ["model", "agent", "project"] as const) {
    if (asked[name] !== null) chips.push({ name, text: asked[name], href: to.here({ [name]: null }) });
  }
  for (const tag of asked.tag) {
    chips.push({ name: "tag", text: tag, href: to.here({ tag: asked.tag.filter((one) => one !== tag) }) });
  }
  if (chips.length === 0) return null;
  return (
    <ul class="usage-chosen" aria-label="Filters">
      {chips.map(({ name, text, href }) => (
        <li key={`${name} ${text}`}>
          <a href={href} title="Take this filter off">
            <span class="unseen">Take off: </span>
            {name} <b>{text}</b> <span aria-hidden="true">×</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

/** The titles of sessions: sums know only their ids. Those that cost most are read, one by one. */
function useTitles(report: UsageReport | undefined): ReadonlyMap<string, string> {
  const titles = useSignal<ReadonlyMap<string, string>>(new Map());
  useEffect(() => {
    const over = new AbortController();
    const missing = (report?.groups ?? []).flatMap(({ group }) => (group === null || titles.peek().has(group) ? [] : [group]));
    for (const id of missing) {
      get<SessionInfo>(at(id), {}, over.signal).then(
        (info) => void (titles.value = new Map(titles.peek()).set(id, info.title ?? info.preview)),
        () => undefined, // it is in the trash, or purged: its id is shown
      );
    }
    return () => over.abort();
  }, [report]);
  return titles.value;
}
