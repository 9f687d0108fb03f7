import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get } from "../api/client";
import type { Page, SessionInfo } from "../api/types";
import { place, to } from "../app/router";
import { told } from "../app/toast";
import { plural } from "../parts/numbers";
import { ago } from "../parts/time";

export function Sidebar(): JSX.Element {
  const found = useSignal<readonly SessionInfo[]>([]);
  useEffect(() => {
    get<Page<SessionInfo>>("/sessions", { limit: 50 }).then((page) => void (found.value = page.data), told);
  }, []);
  return (
    <nav class="sidebar" aria-label="Sessions">
      <ul id="list">
        {found.value.map((one) => (
          <li key={one.id}>
            <a href={to.session(one.id)} aria-current={place.value.id === one.id ? "page" : undefined}>
              {one.title ?? one.id} <small>{plural(one.messages, "message")} · {ago(one.updated_at)}</small>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
