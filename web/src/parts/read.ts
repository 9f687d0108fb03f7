// Reads what a component shows, again when it asks for something else; what is not wanted any more is broken off.
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, withQuery } from "../api/client";
import type { Page } from "../api/types";

type Query = Parameters<typeof withQuery>[1];

export interface Read<T> {
  /** undefined: not there yet. */
  value: T | undefined;
  /** Why it cannot be read; empty if it can. */
  why: string;
}

/** Why something is not shown, in words. */
export function whyNot(error: unknown): string {
  if (error instanceof ApiError && error.code === "snapshot_not_found") return "These files are not in the store any more.";
  return (error as Error).message;
}

/** Read with a function. `name` says what is read: another one is another reading; null: nothing is read. */
export function useReading<T>(name: string | null, read: (signal: AbortSignal) => Promise<T>, again: readonly unknown[] = []): Read<T> {
  const [found, setFound] = useState<Read<T> & { of: string | null }>({ of: null, value: undefined, why: "" });
  useEffect(() => {
    if (name === null) return;
    const over = new AbortController();
    read(over.signal).then(
      (value) => over.signal.aborted || setFound({ of: name, value, why: "" }),
      (error: unknown) => over.signal.aborted || setFound({ of: name, value: undefined, why: whyNot(error) }),
    );
    return () => over.abort();
  }, [name, ...again]);
  return found.of === name ? found : { value: undefined, why: "" };
}

/** Read a path of the API. With `again`, what was read stays until the new is there. */
export function useRead<T>(path: string | null, query: Query = {}, again: readonly unknown[] = []): Read<T> {
  return useReading<T>(path && withQuery(path, query), (signal) => get<T>(path!, query, signal), again);
}

/** Read a list page by page. */
export function usePages<T>(path: string | null, query: Query = {}): Read<readonly T[]> & { more: (() => void) | null } {
  const name = path && withQuery(path, query);
  const first = useRead<Page<T>>(path, query);
  const [rest, setRest] = useState<{ of: string | null; items: readonly T[]; cursor: string | null; why: string }>({
    of: null,
    items: [],
    cursor: null,
    why: "",
  });
  const own = rest.of === name ? rest : null;
  const cursor = own ? own.cursor : (first.value?.cursor ?? null);
  const items = own?.items ?? [];
  const more = async () => {
    try {
      const page = await get<Page<T>>(path!, { ...query, cursor });
      setRest({ of: name, items: [...items, ...page.data], cursor: page.cursor, why: "" });
    } catch (error) {
      setRest({ of: name, items, cursor, why: whyNot(error) });
    }
  };
  return {
    value: first.value && [...first.value.data, ...items],
    why: first.why || (own?.why ?? ""),
    more: cursor === null ? null : () => void more(),
  };
}
