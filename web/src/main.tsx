import { render } from "preact";
import { type ApiError, isShare, me, signedOutBecause, useShare } from "./api/client";
import { App } from "./app/App";
import { go } from "./app/router";
import { signIn, whyRefused } from "./app/signing";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/markup.css";
import "./styles/frame.css";

/** Whoever pastes an address that signs in, or that shows a share, into this tab means it, whatever is open. */
window.addEventListener("hashchange", () => {
  const { once, share } = given();
  if (once !== null || (share !== null && !isShare(share))) location.reload();
});

function given(): { once: string | null; share: string | null } {
  const found = new URLSearchParams(location.hash.slice(1));
  return { once: found.get("once"), share: found.get("share") };
}

async function start(): Promise<void> {
  const { share, ...rest } = given();
  const once = rest.once ?? undefined;
  if (share !== null) useShare(share);
  if (once !== undefined) {
    // The code is used up in a moment; it need not stay in the address, nor in the history.
    go(location.pathname + location.search, { replace: true });
  }
  render(<App />, document.getElementById("app")!);
  try {
    await signIn({ once });
  } catch (error) {
    // Who opens the address of `clew serve` a second time is signed in already.
    if (once !== undefined && (await signIn().then(() => true, () => false))) return;
    const problem = error as ApiError;
    signedOutBecause.value = problem.status === 401 && once === undefined ? "" : whyRefused(problem);
    me.value = null;
  }
}

void start();
