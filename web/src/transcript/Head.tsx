// Above the transcript: which session it is, and what of it is shown.
import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { current, showsThinking, showsTools } from "../app/state";
import { HandoffButtons } from "../handoff/Handoff";
import { plural } from "../parts/numbers";
import { ago, exact } from "../parts/time";
import { onlyPrompts, type Reading } from "./Reading";

export function Head({ reading, onFind }: { reading: Reading; onFind: () => void }): JSX.Element {
  const session = current.value;
  const facts = session && [session.agent, session.model, plural(session.messages, "message")].filter(Boolean).join(" · ");
  return (
    <header class="transcript-head">
      <div class="transcript-title">
        <h1 dir="auto">{session?.title ?? session?.preview ?? reading.id}</h1>
        <small>
          {facts}
          {session && (
            <span title={exact(session.updated_at)}>
              {" · "}
              {ago(session.updated_at)}
            </span>
          )}
        </small>
      </div>
      <HandoffButtons />
      <div class="transcript-controls">
        {reading.unread.value > 0 && (
          <button type="button" class="transcript-chip transcript-unread-chip" onClick={() => reading.toUnread()}>
            {plural(reading.unread.value, "unread entry", "unread entries")} ↑
          </button>
        )}
        <Toggle name="Tools" shows={showsTools} title="Show tool calls (T)" />
        <Toggle name="Thinking" shows={showsThinking} title="Show thinking (H)" />
        <Toggle name="Only prompts" shows={onlyPrompts} title="Show only what people said (P)" />
        <button type="button" class="quiet" title="Find in this session (Ctrl F)" onClick={onFind}>
          Find
        </button>
      </div>
    </header>
  );
}

function Toggle({ name, shows, title }: { name: string; shows: Signal<boolean>; title: string }): JSX.Element {
  return (
    <button type="button" class="transcript-chip" aria-pressed={shows.value} title={title} onClick={() => void (shows.value = !shows.value)}>
      {name}
    </button>
  );
}
