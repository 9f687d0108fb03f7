import type { JSX } from "preact";
import { isShare, me } from "../api/client";
import { run } from "./commands";
import { place, to } from "./router";
import { signOut } from "./SignIn";
import { current, showsSidebar, theme } from "./state";

const THEMES = { auto: "light", light: "dark", dark: "auto" } as const;

export function TopBar(): JSX.Element {
  const who = me.value!;
  const shared = isShare();
  const title = current.value?.title ?? current.value?.id;
  return (
    <header class="topbar">
      {!shared && (
        <button
          type="button"
          class="quiet"
          aria-label="Sessions"
          aria-pressed={showsSidebar.value}
          title="Sessions (s)"
          onClick={() => run("sidebar")}
        >
          ☰
        </button>
      )}
      <a class="brand" href={shared ? undefined : to.home()}>
        Clew
      </a>
      <span id="who" class="who" role="status">
        {shared ? (title === undefined ? "…" : `shared: ${title}`) : `signed in as ${who.name}`}
      </span>
      {!shared && (
        <nav aria-label="Views">
          <a href={to.home()} aria-current={place.value.view === "home" ? "page" : undefined}>
            Sessions
          </a>
          <a href={to.usage()} aria-current={place.value.view === "usage" ? "page" : undefined}>
            Usage
          </a>
        </nav>
      )}
      {!shared && (
        <button type="button" class="quiet" aria-label="Commands" title="Commands (Ctrl K)" onClick={() => run("palette")}>
          ⌘
        </button>
      )}
      <button
        type="button"
        class="quiet"
        title={`Colours: ${theme.value}`}
        aria-label={`Colours: ${theme.value}. Change them`}
        onClick={() => void (theme.value = THEMES[theme.value])}
      >
        ◐
      </button>
      {!shared && (
        <button id="leave" type="button" class="quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      )}
    </header>
  );
}
