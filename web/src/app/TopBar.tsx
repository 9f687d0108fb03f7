// The bar at the top: where one is, the way to commands, colours, and who is signed in.
import type { JSX } from "preact";
import { isShare, me, online } from "../api/client";
import { AutoIcon, DownloadIcon, MoonIcon, PanelIcon, SearchIcon, SessionsIcon, SidebarIcon, SunIcon, UsageIcon } from "../parts/icons";
import { AccountMenu } from "./AccountMenu";
import { run, useCommands } from "./commands";
import { Keys } from "./KeySheet";
import { place, to } from "./router";
import { current, showsPanel, showsSidebar, theme } from "./state";
import "./bar.css";

const THEMES = {
  auto: { next: "light", name: "as the system", Icon: AutoIcon },
  light: { next: "dark", name: "light", Icon: SunIcon },
  dark: { next: "auto", name: "dark", Icon: MoonIcon },
} as const;
type Theme = keyof typeof THEMES;

export function TopBar(): JSX.Element {
  const shared = isShare();
  const title = current.value?.title ?? current.value?.id;
  useCommands(() =>
    (Object.keys(THEMES) as Theme[]).map((one) => ({
      id: `theme-${one}`,
      title: `Colours: ${THEMES[one].name}`,
      group: "General",
      run: () => void (theme.value = one),
    })),
  );
  const { next, name, Icon } = THEMES[theme.value];
  return (
    <header class="topbar">
      {!shared && (
        <button
          type="button"
          class="quiet topbar-sidebar"
          aria-label="Sessions"
          aria-pressed={showsSidebar.value}
          title="Sessions (s)"
          onClick={() => run("sidebar")}
        >
          <SidebarIcon />
        </button>
      )}
      <a class="brand" href={shared ? undefined : to.home()}>
        Clew
      </a>
      {shared ? (
        <span id="who" class="topbar-shared" role="status">
          {title === undefined ? "…" : `shared: ${title}`}
        </span>
      ) : (
        <>
          <span id="who" class="unseen" role="status">
            signed in as {me.value!.name}
          </span>
          <nav aria-label="Views">
            <a href={to.home()} aria-label="Sessions" aria-current={place.value.view === "home" ? "page" : undefined}>
              <SessionsIcon />
              <span>Sessions</span>
            </a>
            <a href={to.usage()} aria-label="Usage" aria-current={place.value.view === "usage" ? "page" : undefined}>
              <UsageIcon />
              <span>Usage</span>
            </a>
          </nav>
          <button type="button" class="topbar-palette" title="Commands and sessions (Ctrl K)" onClick={() => run("palette")}>
            <SearchIcon />
            <span>Go to, or do…</span>
            <Keys keys="Ctrl+k" />
          </button>
        </>
      )}
      <span class="topbar-end">
        {!online.value && <span class="topbar-offline" title="The server does not answer" />}
        {shared && (
          <button type="button" class="quiet" aria-label="Export" title="Export (e)" onClick={() => run("export")}>
            <DownloadIcon />
          </button>
        )}
        {!shared && place.value.view === "session" && (
          <button
            type="button"
            class="quiet topbar-panel"
            aria-label="Panel"
            aria-pressed={showsPanel.value}
            title="Panel: branches, files, usage, info (p)"
            onClick={() => run("panel")}
          >
            <PanelIcon />
          </button>
        )}
        <button
          type="button"
          class="quiet"
          title={`Colours: ${name}`}
          aria-label={`Colours: ${name}. Change them`}
          onClick={() => void (theme.value = next)}
        >
          <Icon />
        </button>
        {!shared && <AccountMenu />}
      </span>
    </header>
  );
}
