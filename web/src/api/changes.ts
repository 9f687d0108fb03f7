// What changes in the store, in one stream for all parts of the page: a browser has six connections to a server.
import { follow } from "./stream";
import type { Change } from "./types";

interface Listener {
  onChange: (change: Change) => void;
  /** The stream begins, and not behind a place that was seen: read what is shown again. */
  onStart?: () => void;
}

const listeners = new Set<Listener>();
let stop: (() => void) | null = null;

/** Be told of every change, until the function that is returned is called. */
export function onChanges(listener: Listener): () => void {
  listeners.add(listener);
  stop ??= follow("/live", {
    behind: 0, // what happened meanwhile is told when the tab is in front again
    onFrame: ({ event, data }) => {
      for (const one of [...listeners]) {
        if (event === "change") one.onChange(data as Change);
        else if (event === "head") one.onStart?.();
      }
    },
  });
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    stop?.();
    stop = null;
  };
}
