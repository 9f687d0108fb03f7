// Chooses one side: a session, and one of its branches.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, session as at } from "../api/client";
import type { Outline, Tree } from "../api/trees";
import { entryId, type Page, type SessionInfo } from "../api/types";
import { Dialog } from "../app/Dialog";
import { to } from "../app/router";
import { told } from "../app/toast";
import { leaves } from "../branches/lanes";
import { ago } from "../parts/time";

interface Props {
  name: string;
  session: string;
  at: string;
  onChoose: (session: string, at: string) => void;
}

export function Picker({ name, session, at: point, onChoose }: Props): JSX.Element {
  const [info, setInfo] = useState<SessionInfo | null>(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    setInfo(null);
    if (!session) return;
    const over = new AbortController();
    get<SessionInfo>(at(session), {}, over.signal).then(setInfo, () => undefined);
    return () => over.abort();
  }, [session]);
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

function Branches({ name, session, point, onChoose }: { name: string; session: string; point: string; onChoose: (at: string) => void }): JSX.Element {
  const [ends, setEnds] = useState<readonly { id: string; text: string }[]>([]);
  useEffect(() => {
    const over = new AbortController();
    const read = async () => {
      const tree = await get<Tree>(at(session, "/tree"), {}, over.signal);
      const found = leaves(tree).map((leaf) => ({ leaf, id: entryId(leaf) }));
      const named = found.map(async ({ leaf, id }, index) => {
        const standing = Object.entries(tree.heads).find(([, head]) => entryId(head) === id);
        const plain = standing ? standing[0] : `branch up to entry ${leaf.position}`;
        if (standing || index >= NAMED) return { id, text: plain };
        const outline = await get<Outline>(at(session, "/outline"), { at: id }, over.signal).catch(() => null);
        const last = outline?.data.findLast((one) => one.kind === "prompt" && one.id.startsWith(`${leaf.branch}.`));
        return { id, text: last ? `${plain}: ${last.text}` : plain };
      });
      setEnds(await Promise.all(named));
    };
    read().catch((error: unknown) => {
      if (!over.signal.aborted) told(error);
    });
    return () => over.abort();
  }, [session]);
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
  const [found, setFound] = useState<readonly SessionInfo[] | null>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    const over = new AbortController();
    const timer = setTimeout(
      () => {
        get<Page<SessionInfo>>("/sessions", { limit: 200 }, over.signal).then(
          (page) => setFound(page.data),
          (error: unknown) => {
            if (!over.signal.aborted) told(error);
          },
        );
      },
      0,
    );
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, []);
  const asked = words.trim().toLowerCase();
  const shown = found?.filter((one) => `${one.title ?? ""} ${one.preview} ${one.id} ${one.workspace ?? ""}`.toLowerCase().includes(asked)).slice(0, 50);
  const isId = asked !== "" && found !== null && !shown?.length;
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
