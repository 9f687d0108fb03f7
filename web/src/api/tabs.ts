// A browser has six connections to a server, for all tabs together, and a stream keeps one as long as it is open.
// A tab that gets no answer asks the tabs behind it to give theirs back.

/** Milliseconds without an answer, after which a tab asks. */
const PATIENCE = 1000;

const channel = new BroadcastChannel("clew");

/** An answer of the server. If it takes long, tabs behind this one give their streams back. */
export function awaited<T>(answer: Promise<T>): Promise<T> {
  const timer = setTimeout(() => channel.postMessage("rest"), PATIENCE);
  return answer.finally(() => clearTimeout(timer));
}

/** Be told when another tab needs a connection, until the function that is returned is called. */
export function onNeed(act: () => void): () => void {
  channel.addEventListener("message", act);
  return () => channel.removeEventListener("message", act);
}
