// Requests to the server. The page has one secret at most: the token of a share, which stays in memory.
import { signal } from "@preact/signals";
import { awaited } from "./tabs";
import type { Me, Problem } from "./types";

export const root = document.querySelector<HTMLMetaElement>("meta[name='clew-root']")!.content;
export const api = `${root}/api/v1`;

/** Who is signed in; null: nobody yet; undefined: not known yet. */
export const me = signal<Me | null | undefined>(undefined);
/** Why nobody is signed in any more; shown above the form. */
export const signedOutBecause = signal("");
/** Whether the last request reached the server. */
export const online = signal(true);

let share: string | null = null;

export function useShare(token: string): void {
  share = token;
}

/** Whether a share is shown; with `token`: this one. */
export function isShare(token?: string): boolean {
  return share !== null && (token === undefined || token === share);
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly next = "",
    /** The rest of what the server said. */
    readonly problem: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

/** The path of an API call with its query; what is null, undefined or empty is left out. */
export function withQuery(path: string, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) given.append(name, String(one));
  }
  const text = given.toString();
  return text ? `${path}?${text}` : path;
}

/** An id as one part of a path. Proxies read %2F and dots in their own ways, so anything odd goes as base64url. */
export function part(id: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9_.:@-]*$/.test(id)) return encodeURIComponent(id);
  const bytes = new TextEncoder().encode(id);
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return `~${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/** Undoes `part`. */
export function unpart(text: string): string {
  if (!text.startsWith("~")) return decodeURIComponent(text);
  const binary = atob(text.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder().decode(Uint8Array.from(binary, (letter) => letter.charCodeAt(0)));
}

export function session(id: string, rest = ""): string {
  return `/sessions/${part(id)}${rest}`;
}

export function headers(): Record<string, string> {
  return share === null ? {} : { Authorization: `Bearer ${share}` };
}

interface Options {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Send a request; an answer that is not a success is an ApiError. */
export async function send(method: string, path: string, options: Options = {}): Promise<Response> {
  const given = { ...headers(), ...options.headers };
  // A write of a page needs a type that no form of another site can send.
  if (method !== "GET") given["Content-Type"] = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  let answer: Response;
  try {
    answer = await awaited(
      fetch(api + withQuery(path, options.query), {
        method,
        headers: given,
        body: method === "GET" ? undefined : JSON.stringify(options.body ?? {}),
        credentials: share === null ? "same-origin" : "omit",
        redirect: "error",
        signal: options.signal,
      }),
    );
  } catch (error) {
    if (options.signal?.aborted) throw error;
    online.value = false;
    throw new ApiError(0, "offline", "The server does not answer.", "It may be stopped: start `clew serve` again.");
  }
  online.value = true;
  if (!answer.ok) throw await failure(answer);
  return answer;
}

/** What some errors mean to who reads a page: the words of the API name arguments of calls. */
const FOR_PEOPLE: Record<string, string> = {
  session_not_found: "There is no such session. It may be in the trash.",
  root_not_named:
    "These files came with an import or from another machine, so Clew does not know their directory here." +
    " To choose one, run `clew rewind --files --root DIRECTORY` or `clew restore --to DIRECTORY` in a terminal.",
};
/** A next step that only a program can take. */
const A_CALL = /; (?:store\.|pass (?:it as|move=)).*$/s;

/** What an answer says is wrong. One that says "sign in" ends the sign-in of the page. */
export async function failure(answer: Response): Promise<ApiError> {
  const problem: Partial<Problem> & Record<string, unknown> = await answer.json().catch(() => ({}));
  if (answer.status === 401 && me.value) {
    signedOutBecause.value = share === null ? "Your sign-in has ended. Sign in again to go on." : "";
    me.value = null;
  }
  const known = FOR_PEOPLE[problem.code ?? ""];
  const text = known || problem.detail?.replace(A_CALL, "") || problem.title || `The server answered ${answer.status}.`;
  // What to do next is said to programs, too; who reads a page sends no requests by hand.
  const next = known || problem.next?.includes("/api/v1/") ? "" : problem.next;
  return new ApiError(answer.status, problem.code ?? "", text, next, problem);
}

async function decoded<T>(method: string, path: string, options?: Options): Promise<T> {
  const answer = await send(method, path, options);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

export const get = <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> =>
  decoded<T>("GET", path, { query, signal });
export const post = <T>(path: string, body?: unknown, options?: Options): Promise<T> =>
  decoded<T>("POST", path, { ...options, body });
export const patch = <T>(path: string, body: unknown): Promise<T> => decoded<T>("PATCH", path, { body });
export const remove = (path: string): Promise<void> => decoded<void>("DELETE", path);
