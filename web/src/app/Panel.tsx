// What belongs to the session that is shown: branches, files, usage, facts. One tab at a time.
import type { JSX } from "preact";
import { lazy } from "../parts/lazy";
import { useCommands } from "./commands";
import { go, place, to } from "./router";
import { current, showsPanel } from "./state";

const BranchPanel = lazy(() => import("../branches/BranchPanel").then((found) => found.BranchPanel));
const FilePanel = lazy(() => import("../files/FilePanel").then((found) => found.FilePanel));
const UsagePanel = lazy(() => import("../usage/UsagePanel").then((found) => found.UsagePanel));
const InfoPanel = lazy(() => import("../handoff/InfoPanel").then((found) => found.InfoPanel));

const TABS = [
  { id: "tree", title: "Branches", key: "t", Content: BranchPanel },
  { id: "files", title: "Files", key: "F", Content: FilePanel },
  { id: "usage", title: "Usage", key: "c", Content: UsagePanel },
  { id: "info", title: "Info", key: "i", Content: InfoPanel },
] as const;

/** Arrow keys go from tab to tab, as everywhere. */
function onArrow(event: KeyboardEvent): void {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step === undefined) return;
  const tabs = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")];
  const next = tabs[(tabs.indexOf(event.target as HTMLElement) + step + tabs.length) % tabs.length];
  event.preventDefault();
  next?.click();
  next?.focus();
}

export function Panel(): JSX.Element | null {
  const asked = place.value.query.get("panel");
  const shown = TABS.find((tab) => tab.id === asked) ?? TABS[0];
  const open = (id: string) => {
    showsPanel.value = true;
    go(to.here({ panel: id }), { replace: true });
  };
  useCommands(() =>
    TABS.map((tab) => ({
      id: `panel-${tab.id}`,
      title: `Panel: ${tab.title}`,
      group: "General",
      keys: [tab.key],
      run: () => (showsPanel.value && shown.id === tab.id ? void (showsPanel.value = false) : open(tab.id)),
    })),
  );
  if (!showsPanel.value) return null;
  const session = current.value;
  return (
    <aside class="panel" aria-label="About this session">
      <div class="panel-tabs">
        <div role="tablist" aria-label="About this session" onKeyDown={onArrow}>
          {TABS.map((tab) => (
            <button
              key={tab.id}
              type="button"
              role="tab"
              id={`tab-${tab.id}`}
              aria-selected={tab === shown}
              aria-controls="panel-content"
              tabIndex={tab === shown ? 0 : -1}
              title={`${tab.title} (${tab.key})`}
              onClick={() => open(tab.id)}
            >
              {tab.title}
            </button>
          ))}
        </div>
        <button type="button" class="quiet panel-close" aria-label="Close the panel" onClick={() => void (showsPanel.value = false)}>
          ×
        </button>
      </div>
      <div id="panel-content" class="panel-content" role="tabpanel" aria-labelledby={`tab-${shown.id}`} tabIndex={0}>
        {session === null ? <p class="loading" role="status">Loading…</p> : <shown.Content key={session.id} session={session} />}
      </div>
    </aside>
  );
}
