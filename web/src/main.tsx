import { render } from "preact";
import { me, signedOutBecause, useShare } from "./api/client";
import { App } from "./app/App";
import { go } from "./app/router";
import { signIn } from "./app/SignIn";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/markup.css";
import "./styles/frame.css";

async function start(): Promise<void> {
  const given = new URLSearchParams(location.hash.slice(1));
  const once = given.get("once") ?? undefined;
  const share = given.get("share");
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
    const { status, message } = error as { status?: number; message: string };
    signedOutBecause.value = status === 401 && once === undefined ? "" : message;
    me.value = null;
  }
}

void start();
