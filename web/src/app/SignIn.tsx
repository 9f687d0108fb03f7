import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, isShare, me, post, signedOutBecause } from "../api/client";
import type { Me } from "../api/types";

/** Learn who is signed in; with `once`, by the code that `clew serve` printed. */
export async function signIn(given: { once?: string; token?: string } = {}): Promise<void> {
  if (given.once !== undefined || given.token !== undefined) await post("/login", given);
  me.value = await get<Me>("/me");
  signedOutBecause.value = "";
}

export async function signOut(): Promise<void> {
  await post("/logout").catch(() => undefined);
  signedOutBecause.value = "";
  me.value = null;
}

export function SignIn(): JSX.Element {
  const [error, setError] = useState("");
  const [token, setToken] = useState("");
  if (isShare()) {
    return (
      <main class="signin">
        <h1>Clew</h1>
        <p id="who" role="status">{signedOutBecause.value || "This link does not show anything any more."}</p>
        <p>Ask whoever gave it to you for a new one.</p>
      </main>
    );
  }
  return (
    <main class="signin">
      <h1>Clew</h1>
      <p id="who" role="status">{error || signedOutBecause.value || "You are not signed in."}</p>
      <p>
        Open the address that <code>clew serve</code> shows: it signs you in. Or paste a token:
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setToken("");
          signIn({ token: token.trim() }).catch((problem: Error) => setError(problem.message));
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
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
    </main>
  );
}
