// A link for everyone who has it: what it shows, how long, and the end of it.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get, part, post, remove } from "../api/client";
import { headOf } from "../api/trees";
import type { Share } from "../api/types";
import { Dialog } from "../app/Dialog";
import { cursor } from "../app/state";
import { told } from "../app/toast";
import { CopyButton } from "../parts/Copy";
import { plural } from "../parts/numbers";
import { ago, exact } from "../parts/time";
import type { Target } from "../sessions/actions";
import { isShown, Of } from "./Of";

const DAY = 24 * 3600;
const LENGTHS = [
  { seconds: DAY, name: "1 day" },
  { seconds: 7 * DAY, name: "7 days" },
  { seconds: 30 * DAY, name: "30 days" },
  { seconds: null, name: "no time" },
] as const;

type Extent = "now" | "here" | "live";

interface Props {
  session: Target;
  onClose: () => void;
}

/** An entry's id ends with its position. */
function upTo(head: string): string {
  const position = Number(head.split(".").at(-1));
  return head === "start" || Number.isNaN(position) ? "empty" : `the first ${plural(position + 1, "entry", "entries")}`;
}

/** Whether an address leads every machine to itself. */
function isOfThisMachine(url: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(url).hostname);
}

export function ShareDialog({ session, onClose }: Props): JSX.Element {
  const here = isShown(session) ? cursor.value : null;
  const extent = useSignal<Extent>("now");
  const redact = useSignal(true);
  const length = useSignal(1);
  const made = useSignal<string | null>(null);
  const shares = useSignal<readonly Share[]>([]);
  const field = useRef<HTMLInputElement>(null);
  const list = () =>
    get<{ data: Share[] }>("/shares", { session: session.id }).then((found) => void (shares.value = found.data), told);
  useEffect(() => void list(), []);
  useEffect(() => field.current?.select(), [made.value]);

  const make = async () => {
    const { url } = await post<{ url: string }>("/shares", {
      session: session.id,
      live: extent.value === "live",
      at: extent.value === "here" ? here : null,
      redact: redact.value,
      expires_in: LENGTHS[length.value]!.seconds,
    });
    made.value = url;
    await list();
  };
  const choice = (value: Extent, text: string) => (
    <label>
      <input type="radio" name="extent" checked={extent.value === value} onChange={() => void (extent.value = value)} /> {text}
    </label>
  );
  return (
    <Dialog title="Share" class="handoff" onClose={onClose}>
      <Of session={session} />
      <p>Everyone who has the link can read this session: no other one, no files, no costs.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          make().catch(told);
        }}
      >
        <div class="handoff-choice" role="group" aria-label="What it shows">
          {choice("now", "As it is now")}
          {here !== null && choice("here", `Up to entry ${headOf(here)!.position}`)}
          {choice("live", "Live, with everything that comes")}
        </div>
        <div class="handoff-choice">
          <label>
            <input type="checkbox" checked={redact.value} onChange={(event) => void (redact.value = event.currentTarget.checked)} />{" "}
            Replace secrets that are found
          </label>
          <label class="handoff-length">
            It ends after
            <select value={length.value} onChange={(event) => void (length.value = Number(event.currentTarget.value))}>
              {LENGTHS.map((one, index) => (
                <option key={index} value={index}>
                  {one.name}
                </option>
              ))}
            </select>
          </label>
        </div>
        <div class="handoff-end">
          <button type="submit" class="primary">
            Make a link
          </button>
        </div>
      </form>
      {made.value !== null && (
        <div class="handoff-made" role="status">
          <label for="share-link">The link. It is shown only now: copy it.</label>
          <div class="handoff-command">
            <input id="share-link" ref={field} readOnly value={made.value} />
            <CopyButton text={made.value} name="Copy the link" class="primary">
              Copy
            </CopyButton>
          </div>
          {isOfThisMachine(made.value) && (
            <p class="handoff-reach">
              This link works on this machine only. For other machines, start the server with <code>clew serve --host 0.0.0.0</code>.
            </p>
          )}
        </div>
      )}
      {shares.value.length > 0 && (
        <section class="handoff-shares">
          <h3>Links to this session</h3>
          <ul>
            {shares.value.map((one) => (
              <li key={one.id}>
                <span>
                  {one.live ? "live" : upTo(one.head!)}
                  <small>
                    {one.redact ? "secrets replaced" : "with secrets"} · made <time title={exact(one.created_at)}>{ago(one.created_at)}</time>
                    {" · "}
                    {one.expired ? "ended" : one.expires_at === null ? "does not end" : `ends ${exact(one.expires_at)}`}
                  </small>
                </span>
                <button
                  type="button"
                  class="danger"
                  aria-label={`Remove the link ${one.id}`}
                  onClick={() => void remove(`/shares/${part(one.id)}`).then(list, told)}
                >
                  Remove
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
    </Dialog>
  );
}
