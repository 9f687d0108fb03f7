// Chips below the search: what the list is narrowed to, each with a menu of what there is.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client";
import type { Facets, FacetValue } from "../api/types";
import { told } from "../app/toast";
import { short } from "../parts/numbers";
import { Popover } from "../parts/Popover";
import { filters, isFiltered, NO_FILTER, setFilter } from "./filters";
import { STAR } from "./rows";

/** What there is; read whenever a menu opens. The answer before it is shown until then. */
export const facets = signal<Facets | null>(null);

export function readFacets(): void {
  get<Facets>("/facets", { limit: 200 }).then((found) => void (facets.value = found), told);
}

const OF_LISTS = [
  { name: "project", title: "Project", of: (all: Facets) => all.projects },
  { name: "agent", title: "Agent", of: (all: Facets) => all.agents },
  { name: "model", title: "Model", of: (all: Facets) => all.models },
  { name: "status", title: "Status", of: (all: Facets) => all.statuses },
] as const;

const DAYS = [
  ["Last 24 hours", "24h"],
  ["Last 7 days", "7d"],
  ["Last 30 days", "30d"],
  ["Last 12 weeks", "12w"],
] as const;
const COSTS = ["0.1", "1", "5", "20", "100"];

/** Names of all menus, for commands that open them. */
export const MENUS = [...OF_LISTS.map(({ name, title }) => ({ name, title })), ...[
  { name: "date", title: "Date" },
  { name: "tag", title: "Tag" },
  { name: "cost", title: "Cost" },
]];

export function openMenu(name: string): void {
  const button = document.getElementById(`filter-${name}`);
  button?.focus();
  requestAnimationFrame(() => button?.click());
}

export function FilterBar(): JSX.Element {
  const asked = filters.value;
  return (
    <div class="sessions-filters" role="group" aria-label="Filters">
      {OF_LISTS.map(({ name, title, of }) => (
        <Chip key={name} name={name} title={title} value={asked[name]} onClear={() => setFilter({ [name]: null })}>
          {(close) => (
            <Values
              values={facets.value && of(facets.value)}
              chosen={asked[name] === null ? [] : [asked[name]]}
              onChoose={(value) => (close(), setFilter({ [name]: value === asked[name] ? null : value }))}
            />
          )}
        </Chip>
      ))}
      <Chip
        name="date"
        title="Date"
        value={dates(asked.since, asked.until)}
        onClear={() => setFilter({ since: null, until: null })}
      >
        {(close) => <Dates close={close} />}
      </Chip>
      <Chip name="tag" title="Tag" value={asked.tag.join(" + ").replace(STAR, "★") || null} onClear={() => setFilter({ tag: null })}>
        {(close) => (
          <Values
            values={facets.value && facets.value.tags}
            chosen={asked.tag}
            onChoose={(value) => {
              close();
              setFilter({ tag: asked.tag.includes(value) ? asked.tag.filter((one) => one !== value) : [...asked.tag, value] });
            }}
          />
        )}
      </Chip>
      <Chip
        name="cost"
        title="Cost"
        value={asked.min_cost === null ? null : `≥ $${asked.min_cost}`}
        onClear={() => setFilter({ min_cost: null })}
      >
        {(close) => (
          <ul class="popover-list">
            {COSTS.map((cost) => (
              <Choice key={cost} isChosen={asked.min_cost === cost} onClick={() => (close(), setFilter({ min_cost: cost }))}>
                ${cost} or more
              </Choice>
            ))}
          </ul>
        )}
      </Chip>
      {isFiltered.value && (
        <button type="button" class="quiet sessions-clear" onClick={() => setFilter(NO_FILTER)}>
          Clear
        </button>
      )}
    </div>
  );
}

interface ChipProps {
  name: string;
  title: string;
  value: string | null;
  onClear: () => void;
  children: (close: () => void) => ComponentChildren;
}

function Chip({ name, title, value, onClear, children }: ChipProps): JSX.Element {
  return (
    <span class={value === null ? "sessions-chip" : "sessions-chip is-set"}>
      <Popover
        id={`filter-${name}`}
        label={`Filter by ${title.toLowerCase()}`}
        name={value === null ? `Filter by ${title.toLowerCase()}` : `${title}: ${value}`}
        face={value ?? title}
      >
        {(close) => <Opened>{children(close)}</Opened>}
      </Popover>
      {value !== null && (
        <button type="button" class="sessions-unset" aria-label={`Do not filter by ${title.toLowerCase()}`} onClick={onClear}>
          ×
        </button>
      )}
    </span>
  );
}

/** Reads what there is whenever a menu opens. */
function Opened({ children }: { children: ComponentChildren }): JSX.Element {
  useEffect(readFacets, []);
  return <>{children}</>;
}

interface ValuesProps {
  values: readonly FacetValue[] | null;
  chosen: readonly string[];
  onChoose: (value: string) => void;
}

const MANY = 10;

function Values({ values, chosen, onChoose }: ValuesProps): JSX.Element {
  const [part, setPart] = useState("");
  if (values === null) return <p class="popover-note">Reading…</p>;
  const named = values.filter((one) => one.value !== "");
  if (named.length === 0) return <p class="popover-note">No session has one.</p>;
  const wanted = part.toLowerCase();
  const left = named.filter((one) => one.value.toLowerCase().includes(wanted));
  return (
    <>
      {named.length > MANY && (
        <input
          class="popover-find"
          type="search"
          aria-label="Find in this list"
          placeholder="Find…"
          value={part}
          onInput={(event) => setPart(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && left[0]) onChoose(left[0].value);
          }}
        />
      )}
      <ul class="popover-list">
        {left.map((one) => (
          <Choice key={one.value} isChosen={chosen.includes(one.value)} title={one.workspace} onClick={() => onChoose(one.value)}>
            <span>{one.value === STAR ? "★ starred" : one.value}</span>
            <small>{short(one.sessions)}</small>
          </Choice>
        ))}
      </ul>
    </>
  );
}

interface ChoiceProps {
  isChosen: boolean;
  title?: string;
  onClick: () => void;
  children: ComponentChildren;
}

function Choice({ isChosen, title, onClick, children }: ChoiceProps): JSX.Element {
  return (
    <li>
      <button type="button" aria-pressed={isChosen} title={title} onClick={onClick}>
        {children}
      </button>
    </li>
  );
}

const DAY = 86_400_000;

/** The day before or after one, as the address has it. */
function shifted(day: string, days: number): string {
  const found = Date.parse(day);
  return Number.isNaN(found) ? "" : new Date(found + days * DAY).toISOString().slice(0, 10);
}

/** As a person says it; the end in the address is the first day that does not count. */
function dates(since: string | null, until: string | null): string | null {
  const named = DAYS.find(([, value]) => value === since)?.[0];
  const last = until === null ? "" : shifted(until, -1);
  if (since === null && until === null) return null;
  if (named !== undefined && until === null) return named;
  if (since !== null && since === last) return since;
  return `${since ?? ""} – ${last}`.trim();
}

function Dates({ close }: { close: () => void }): JSX.Element {
  const { since, until } = filters.value;
  return (
    <>
      <ul class="popover-list">
        {DAYS.map(([title, value]) => (
          <Choice
            key={value}
            isChosen={since === value && until === null}
            onClick={() => (close(), setFilter({ since: value, until: null }))}
          >
            {title}
          </Choice>
        ))}
      </ul>
      <div class="popover-fields">
        <label>
          From
          <input
            type="date"
            value={since !== null && /^\d{4}-/.test(since) ? since.slice(0, 10) : ""}
            onChange={(event) => setFilter({ since: event.currentTarget.value || null })}
          />
        </label>
        <label>
          To
          <input
            type="date"
            value={until === null ? "" : shifted(until, -1)}
            onChange={(event) => setFilter({ until: shifted(event.currentTarget.value, 1) || null })}
          />
        </label>
      </div>
    </>
  );
}
