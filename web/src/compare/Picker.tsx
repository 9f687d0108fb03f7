// Chooses one side: a session, and one of its branches.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, session as at } from "../api/client";
import type { Outline, Tree } from "../api/trees";
import { entryId, type Page, type SessionInfo } from "../api/types";
import { Dialog } from "../app/Dialog";
import { to } from "../app/router";
import { leaves } from "../branches/lanes";
import { useRead, useReading } from "../parts/read";
import { ago } from "../parts/time";

interface Props {
  name: string;
  session: string;
  at: string;
  onChoose: (session: string, at: string) => void;
}

export function Picker({ name, session, at: point, onChoose }: Props): JSX.Element {
  const { value: info } = useRead<SessionInfo>(session ? at(session) : null);
  const [isOpen, setOpen] = useState(false);
  const title = !session ? "Choose a session" : (info?.title ?? info?.preview) || session;
  return (
    <div class="compare-side">
      <small>{name}</small>
      <div class="compare-picker">
        <button type="button" class="compare-session" aria-label={`${name}: ${title}. Choose another session`} onClick={() => setOpen(true)}>
          {title}
        </button>
        {session && <Branches key={session} name={name} session={session} point={point} onChoose={(chosen) => onChoose(session, chosen)} />}
        {session && (
          <a href={to.session(session, { at: point || null })} aria-label={`Open the ${name.toLowerCase()} path`}>
            Open
          </a>
        )}
      </div>
      {isOpen && (
        <SessionDialog
          name={name}
          onClose={() => setOpen(false)}
          onChoose={(id) => {
            setOpen(false);
            onChoose(id, "");
          }}
        />
      )}
    </div>
  );
}

/** At most so many branches are named by what is said on them. */
const NAMED = 10;

/** The ends of branches beside the present path, each with the last thing that was asked there. */
async function endsOf(session: string, signal: AbortSignal): Promise<{ id: string; text: string }[]> {
  const tree = await get<Tree>(at(session, "/tree"), {}, signal);
  const named = leaves(tree).map(async (leaf, index) => {
    const id = entryId(leaf);
    const standing = Object.keys(tree.heads).find((one) => entryId(tree.heads[one]!) === id);
    const text = standing ?? `branch up to entry ${leaf.position}`;
    if (standing !== undefined || index >= NAMED) return { id, text };
    const outline = await get<Outline>(at(session, "/outline"), { at: id }, signal).catch(() => null);
    const last = outline?.data.findLast((one) => one.kind === "prompt" && one.id.startsWith(`${leaf.branch}.`));
    return { id, text: last ? `${text}: ${last.text}` : text };
  });
  return Promise.all(named);
}

function Branches({ name, session, point, onChoose }: { name: string; session: string; point: string; onChoose: (at: string) => void }): JSX.Element {
  const { value: ends = [] } = useReading(session, (signal) => endsOf(session, signal));
  const isKnown = !point || ends.some((one) => one.id === point);
  return (
    <select aria-label={`${name}: branch`} value={point} onChange={(event) => onChoose(event.currentTarget.value)}>
      <option value="">present path</option>
      {!isKnown && <option value={point}>path to {point}</option>}
      {ends.map((one) => (
        <option key={one.id} value={one.id}>
          {one.text}
        </option>
      ))}
    </select>
  );
}

function SessionDialog({ name, onClose, onChoose }: { name: string; onClose: () => void; onChoose: (id: string) => void }): JSX.Element {
  const [words, setWords] = useState("");
  const found = useRead<Page<SessionInfo>>("/sessions", { limit: 200 }).value?.data;
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const asked = words.trim().toLowerCase();
  const shown = found?.filter((one) => `${one.title ?? ""} ${one.preview} ${one.id} ${one.workspace ?? ""}`.toLowerCase().includes(asked)).slice(0, 50);
  const isId = asked !== "" && found && !shown?.length;
  return (
    <Dialog title={`${name}: choose a session`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const first = shown?.[0]?.id ?? (isId ? words.trim() : "");
          if (first) onChoose(first);
        }}
      >
        <input
          ref={field}
          class="compare-words"
          type="search"
          aria-label="Words of the title, the project or the id"
          placeholder="Words of the title, the project or the id"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </form>
      {!shown && <p class="compare-note">Reading…</p>}
      {isId && <p class="compare-note">None of the newest 200 sessions. Press Enter to use the words as an id.</p>}
      <ul class="compare-list" aria-label="Sessions">
        {shown?.map((one) => (
          <li key={one.id}>
            <button type="button" class="quiet" onClick={() => onChoose(one.id)}>
              <span>{one.title || one.preview || one.id}</span>
              <small>{ago(one.updated_at)}</small>
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
