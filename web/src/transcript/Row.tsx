// One entry of the transcript: who says it, when, and what.
import type { JSX } from "preact";
import { get, isShare, session } from "../api/client";
import type { Entry, OutlineItem } from "../api/types";
import { to } from "../app/router";
import { cursor } from "../app/state";
import { told } from "../app/toast";
import { agentMark } from "../parts/checkpoints";
import { lazy } from "../parts/lazy";
import { bytes } from "../parts/numbers";
import { exact, moment } from "../parts/time";
import { BlockView } from "./Blocks";
import { Notes } from "./Notes";
import { voice, type Reading } from "./Reading";

const Raw = lazy(() => import("./Raw").then((found) => found.Raw));

const NAMES: Record<string, string> = { user: "User", assistant: "Assistant", tool: "Tool", system: "System", other: "Other" };

interface Props {
  reading: Reading;
  entry: Entry;
  onMenu: (entry: Entry, button: HTMLElement) => void;
}

export function Row({ reading, entry, onMenu }: Props): JSX.Element {
  const { position, id } = entry;
  void reading.scroller.version.value; // what is shown of an entry depends on those around it
  const isJoined = reading.isJoined(position);
  const isCursor = cursor.value === id;
  const speaker = voice(entry);
  const classes = ["transcript-row", `transcript-by-${speaker}`, speaker];
  if (!isJoined) classes.push("transcript-first");
  if (entry.prompt !== undefined) classes.push("transcript-prompt");
  if (isCursor) classes.push("transcript-cursor");
  if (entry.injected) classes.push("transcript-injected");
  const name = entry.injected && entry.speaker === "other" ? "Added by the agent" : NAMES[speaker];
  const shown = reading.shown(entry);
  const isDamaged = entry.kind === "damaged";
  return (
    <article
      class={classes.join(" ")}
      data-at={position}
      data-entry={id}
      tabIndex={isCursor ? 0 : -1}
      aria-posinset={position + 1}
      aria-setsize={reading.path.length}
      aria-label={`${name ?? "Mark"}, entry ${position}`}
      onClick={() => void (cursor.value = id)}
      onKeyUp={(event) => {
        if (event.key === "Tab") cursor.value = id; // the focus came to something inside
      }}
    >
      {reading.seenBefore.value === position - 1 && position > 0 && (
        <p class="transcript-unread">
          <span>New since your last visit</span>
        </p>
      )}
      <div class="transcript-body">
        {!isJoined && speaker !== "mark" && <h2 class="transcript-speaker">{name}</h2>}
        {!isDamaged && (
          <span class="transcript-tools">
            <button
              type="button"
              class="quiet transcript-menu-button"
              aria-label={`Actions for entry ${position}`}
              aria-haspopup="menu"
              onClick={(event) => onMenu(entry, event.currentTarget)}
            >
              ⋯
            </button>
            <a class="transcript-time" href={isShare() ? undefined : to.here({}, id)} title={`Entry ${position}, ${exact(entry.at)}`}>
              {moment(entry.at)}
            </a>
          </span>
        )}
        {reading.raw.value.has(id) ? (
          <Raw session={reading.id} entry={entry} onClose={() => reading.toggleRaw(id)} />
        ) : (
          <>
            {shown.map((block) => {
              const key = `${id}/${entry.blocks!.indexOf(block)}`;
              return <BlockView key={key} reading={reading} entry={entry} block={block} name={key} />;
            })}
            {isDamaged && <p class="transcript-damaged">Entry {position} cannot be read. {entry.line}</p>}
            {entry.large && <Large reading={reading} entry={entry} />}
            {!isDamaged && !entry.large && entry.blocks?.length === 0 && <p class="transcript-note">Nothing is said here.</p>}
          </>
        )}
        {!!entry.redacted && (
          <p class="transcript-note">
            {entry.redacted} {entry.redacted === 1 ? "secret was" : "secrets were"} replaced before this was stored.
          </p>
        )}
        <Notes entry={entry} />
        {reading.checkpoints.value.get(position)?.map((one) => <Flag key={one.text} checkpoint={one} />)}
      </div>
    </article>
  );
}

function Flag({ checkpoint }: { checkpoint: OutlineItem }): JSX.Element {
  const mark = agentMark(checkpoint.text);
  return (
    <p class={`transcript-flag${mark ? " transcript-flag-small" : ""}`} title={`Checkpoint${mark ? ` ${checkpoint.text}` : ""}, ${exact(checkpoint.at)}`}>
      {mark ?? (
        <>
          Checkpoint <b>{checkpoint.text}</b>
          {checkpoint.snapshot && " with files"}
        </>
      )}
    </p>
  );
}

function Large({ reading, entry }: { reading: Reading; entry: Entry }): JSX.Element {
  const load = async () => {
    const path = session(reading.id, `/entries/${encodeURIComponent(entry.id)}`);
    reading.path.replace(await get<Entry>(path, { view: "blocks" }));
  };
  return (
    <button type="button" class="transcript-all" onClick={() => void load().catch(told)}>
      Show all ({bytes(entry.large!.bytes)})
    </button>
  );
}
