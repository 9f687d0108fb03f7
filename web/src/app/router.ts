// The address of the page is what it shows: one address, one view. Paths below the root of the server.
import { computed, signal } from "@preact/signals";
import { part, root, unpart } from "../api/client";

export type View = "home" | "session" | "compare" | "usage";

export interface Place {
  view: View;
  /** Of the session, in a view of one. */
  id: string | null;
  query: URLSearchParams;
  /** The entry after `#`. */
  hash: string;
}

function read(): Place {
  const path = location.pathname.slice(root.length);
  const query = new URLSearchParams(location.search);
  const hash = decode(location.hash.slice(1));
  const found = /^\/s\/([^/]+)$/.exec(path);
  if (found) return { view: "session", id: decode(found[1]!, unpart), query, hash };
  if (path === "/compare" || path === "/usage") return { view: path.slice(1) as View, id: null, query, hash };
  return { view: "home", id: null, query, hash };
}

function decode(text: string, how: (text: string) => string = decodeURIComponent): string {
  try {
    return how(text);
  } catch {
    return text; // somebody typed it
  }
}

export const place = signal<Place>(read());
export const sessionId = computed(() => place.value.id);

window.addEventListener("popstate", () => {
  place.value = read();
});
window.addEventListener("hashchange", () => {
  place.value = read();
});

export type Changes = Record<string, string | readonly string[] | null>;

/** Filters of the list stay when another session is looked at; what belongs to one view does not. */
const OF_LIST = ["q", "agent", "project", "model", "tag", "status", "since", "until", "min_cost", "deleted"];

function changed(query: URLSearchParams, changes: Changes): string {
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    if (value === null) continue;
    for (const one of typeof value === "string" ? [value] : value) query.append(name, one);
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

function ofList(): URLSearchParams {
  const kept = new URLSearchParams();
  for (const name of OF_LIST) for (const value of place.peek().query.getAll(name)) kept.append(name, value);
  return kept;
}

/** Addresses, for links. */
export const to = {
  home: (changes: Changes = {}): string => `${root}/${changed(ofList(), changes)}`,
  session: (id: string, changes: Changes = {}, entry = ""): string =>
    `${root}/s/${part(id)}${changed(ofList(), changes)}${entry ? `#${encodeURIComponent(entry)}` : ""}`,
  usage: (changes: Changes = {}): string => `${root}/usage${changed(ofList(), changes)}`,
  compare: (changes: Changes): string => `${root}/compare${changed(ofList(), changes)}`,
  /** The same view with other parameters. */
  here: (changes: Changes, hash: string | null = null): string =>
    `${location.pathname}${changed(new URLSearchParams(location.search), changes)}` +
    (hash === null ? location.hash : hash ? `#${encodeURIComponent(hash)}` : ""),
};

/** Go to an address of the page. `replace`: it takes the place of the present one in the history. */
export function go(address: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  place.value = read();
}

/** Plain clicks on links of the page stay in the page; clicks for a new tab are the browser's. */
export function onLinkClick(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  const path = link.pathname.slice(root.length);
  if (!link.pathname.startsWith(`${root}/`) || path.startsWith("/api/") || path.startsWith("/v1/")) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
}
