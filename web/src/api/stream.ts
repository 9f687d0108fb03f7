// Server-sent events over fetch: EventSource cannot send the token of a share, nor say why it failed.
import { api, failure, headers, isShare, online, withQuery } from "./client";
import { awaited, onNeed } from "./tabs";

export interface Frame {
  event: string;
  data: any;
  id: string | null;
}

interface Options {
  query?: Record<string, string | readonly string[]>;
  /** Called for each frame, in order. */
  onFrame: (frame: Frame) => void;
  /** The stream cannot go on: the session is gone, or nobody is signed in. */
  onEnd?: (error: Error) => void;
  /** Connected, or not any more. */
  onState?: (isOpen: boolean) => void;
  /** Milliseconds for which it goes on in a tab that is not in front. */
  behind?: number;
}

const FIRST_WAIT = 250;
const LONGEST_WAIT = 5000;
/** For so long a stream goes on in a tab that is not in front, unless another tab needs the connection. */
const BEHIND = 600_000;
/** The server says something every 15 seconds. A connection that is silent for longer is dead, though nobody said so:
 * the network went away, or the machine slept. */
const SILENCE = 45_000;

/** Follow a stream until the function that is returned is called. It connects again by itself, and goes on
 * exactly behind the last frame that had an id: nothing is lost, and nothing comes twice. */
export function follow(path: string, options: Options): () => void {
  const over = new AbortController();
  let lastId: string | null = null;
  let wait = FIRST_WAIT;
  let wake: (() => void) | null = null;
  let heardAt = Date.now();
  let hangUp = () => {};
  let isResting = document.hidden;
  let rest = 0;

  const giveBack = () => {
    if (!document.hidden) return;
    isResting = true;
    hangUp();
  };
  const forget = onNeed(giveBack);
  // A laptop that wakes up, or a tab that is shown again, does not wait for the next try.
  const soon = () => {
    clearTimeout(rest);
    if (document.hidden) {
      rest = window.setTimeout(giveBack, options.behind ?? BEHIND);
      return;
    }
    isResting = false;
    wake?.();
    if (Date.now() - heardAt > SILENCE) hangUp();
  };
  document.addEventListener("visibilitychange", soon);
  window.addEventListener("online", soon);
  over.signal.addEventListener("abort", () => {
    document.removeEventListener("visibilitychange", soon);
    window.removeEventListener("online", soon);
    clearTimeout(rest);
    forget();
    wake?.();
  });

  async function once(): Promise<void> {
    const connection = new AbortController();
    hangUp = () => connection.abort();
    let timer = 0;
    const heard = () => {
      heardAt = Date.now();
      clearTimeout(timer);
      timer = window.setTimeout(hangUp, SILENCE);
    };
    heard();
    try {
      await listen(AbortSignal.any([over.signal, connection.signal]), heard);
    } finally {
      clearTimeout(timer);
    }
  }

  async function listen(signal: AbortSignal, heard: () => void): Promise<void> {
    const given: Record<string, string> = { ...headers(), Accept: "text/event-stream" };
    if (lastId !== null) given["Last-Event-ID"] = lastId;
    const answer = await awaited(
      fetch(api + withQuery(path, options.query), {
        headers: given,
        credentials: isShare() ? "omit" : "same-origin",
        cache: "no-store",
        redirect: "error",
        signal,
      }),
    );
    if (!answer.ok) throw await failure(answer);
    online.value = true;
    wait = FIRST_WAIT;
    options.onState?.(true);
    for await (const frame of frames(answer.body!, heard)) {
      if (over.signal.aborted) return;
      if (frame.id !== null) lastId = frame.id;
      options.onFrame(frame);
    }
  }

  async function run(): Promise<void> {
    while (!over.signal.aborted) {
      if (isResting) {
        await new Promise<void>((done) => void (wake = done));
        continue;
      }
      try {
        await once();
      } catch (error) {
        if (over.signal.aborted) return;
        const status = (error as { status?: number }).status ?? 0;
        if (status >= 400 && status < 500 && status !== 429 && status !== 408) {
          options.onState?.(false);
          options.onEnd?.(error as Error);
          return;
        }
        if (status === 0 && !isResting) online.value = false;
      }
      options.onState?.(false);
      if (isResting) continue;
      await new Promise<void>((done) => {
        const timer = setTimeout(done, wait);
        wake = () => {
          clearTimeout(timer);
          done();
        };
      });
      wake = null;
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
  }

  void run();
  return () => over.abort();
}

async function* frames(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<Frame> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      rest += value;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const frame = parse(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (frame) yield frame;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function parse(text: string): Frame | null {
  let event = "message";
  let id: string | null = null;
  let data = "";
  for (const line of text.split("\n")) {
    const colon = line.indexOf(": ");
    const value = line.slice(colon + 2);
    if (line.startsWith("event: ")) event = value;
    else if (line.startsWith("id: ")) id = value;
    else if (line.startsWith("data: ")) data += value;
  }
  return data ? { event, id, data: JSON.parse(data) } : null;
}
