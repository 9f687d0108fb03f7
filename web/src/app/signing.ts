// Signing in and out.
import { type ApiError, get, me, post, signedOutBecause } from "../api/client";
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

/** In one sentence: what the server says to programs beside it is of no use to who reads it here. */
export function whyRefused({ status, message, next }: ApiError): string {
  if (status !== 401) return [message, next].filter(Boolean).join(" ");
  return `${message.slice(0, 1).toUpperCase()}${message.slice(1)}.`;
}
