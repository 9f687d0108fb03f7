// The address of the page is what it shows: one address, one view. Paths below the root of the server.
import { computed, signal } from "@preact/signals";
import { part, root, unpart } from "../api/client";

export type View = "home" | "session" | "compare" | "usage";

export interface Place {
  view: View;
  /** Of the session, in a view of one; null: what the address says is not known yet. */
  id: string | null;
  /** What the address says of it: its id, or a short one. */
  name: string | null;
  query: URLSearchParams;
  /** The entry after `#`. */
  hash: string;
}

function read(): Place {
  const path = location.pathname.slice(root.length);
  const query = new URLSearchParams(location.search);
  const hash = decode(location.hash.slice(1));
  const found = /^\/s\/([^/]+)$/.exec(path);
  if (found) {
    const name = decode(found[1]!, unpart);
    return { view: "session", id: idOf(name), name, query, hash };
  }
  const view = path === "/compare" || path === "/usage" ? (path.slice(1) as View) : "home";
  return { view, id: null, name: null, query, hash };
}

// -- sessions by their short ids, as far as they are known: app/names.ts asks the server for others

const ids = new Map<string, string>();
const shortIds = new Map<string, string>();

/** The id of the session that a text in an address means; null: not known yet. */
export function idOf(name: string): string | null {
  return ids.get(name) ?? null;
}

/** What a session is called in addresses. */
function nameOf(id: string): string {
  if (!ids.has(id)) ids.set(id, id); // a link of the page: it is an id
  return shortIds.get(id) ?? id;
}

/** Whether a session has to be asked for to be called by its short id. */
export function isShortened(id: string): boolean {
  return shortIds.has(id);
}

/** Take over what a text means, and let the address show the short id. */
export function learn(name: string, id: string, shortId: string): void {
  for (const one of [name, id, shortId]) ids.set(one, id);
  shortIds.set(id, shortId);
  const now = place.peek();
  if (now.name === name && name !== shortId) {
    go(`${root}/s/${part(shortId)}${location.search}${location.hash}`, { replace: true });
  } else if (now.name === name || now.view === "compare") {
    place.value = read();
  }
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

function named(id: Changes[string] | undefined): string | null {
  return typeof id === "string" ? id && nameOf(id) : null;
}

/** Addresses, for links. */
export const to = {
  home: (changes: Changes = {}): string => `${root}/${changed(ofList(), changes)}`,
  session: (id: string, changes: Changes = {}, entry = ""): string =>
    `${root}/s/${part(nameOf(id))}${changed(ofList(), changes)}${entry ? `#${encodeURIComponent(entry)}` : ""}`,
  usage: (changes: Changes = {}): string => `${root}/usage${changed(ofList(), changes)}`,
  compare: ({ a, b, ...changes }: Changes): string =>
    `${root}/compare${changed(ofList(), { ...changes, a: named(a), b: named(b) })}`,
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
