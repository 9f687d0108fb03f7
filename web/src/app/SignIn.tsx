// What is seen where nobody is signed in, or a share has ended.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { type ApiError, isShare, root, signedOutBecause } from "../api/client";
import { signIn, whyRefused } from "./signing";
import "./bar.css";

export function SignIn(): JSX.Element {
  const [error, setError] = useState("");
  const [token, setToken] = useState("");
  const [isSending, setSending] = useState(false);
  if (isShare()) {
    const isElse = signedOutBecause.value !== ""; // the server is away, or busy: the link may still be good
    return (
      <Alone title={isElse ? "This link cannot be shown now" : "This link has ended"}>
        <p id="who" class="signin-said" role="status">
          {isElse ? signedOutBecause.value : "It does not show anything any more."}
        </p>
        <p>{isElse ? "Load the page again in a while." : "Ask whoever gave it to you for a new one."}</p>
      </Alone>
    );
  }
  return (
    <Alone title="Sign in to Clew">
      <p id="who" class="signin-said" role="status">
        {error || signedOutBecause.value || "You are not signed in."}
      </p>
      <p>
        Open the address that <code>clew serve --sign-in</code> prints. Or paste a token: <code>clew token add</code> makes one.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setToken("");
          setSending(true);
          signIn({ token: token.trim() })
            .catch((problem: ApiError) => setError(whyRefused(problem)))
            .finally(() => setSending(false));
        }}
      >
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={isSending}>
          Sign in
        </button>
      </form>
    </Alone>
  );
}

function Alone({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return (
    <main class="signin">
      <img class="signin-mark" src={`${root}/icon.svg`} alt="" />
      <h1>{title}</h1>
      {children}
    </main>
  );
}
