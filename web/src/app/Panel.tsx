// What belongs to the session that is shown: branches, files, usage, facts. One tab at a time.
import type { JSX } from "preact";
import { BranchPanel } from "../branches/BranchPanel";
import { FilePanel } from "../files/FilePanel";
import { InfoPanel } from "../handoff/InfoPanel";
import { UsagePanel } from "../usage/UsagePanel";
import { useCommands } from "./commands";
import { go, place, to } from "./router";
import { current, showsPanel } from "./state";

const TABS = [
  { id: "tree", title: "Branches", key: "t", Content: BranchPanel },
  { id: "files", title: "Files", key: "F", Content: FilePanel },
  { id: "usage", title: "Usage", key: "c", Content: UsagePanel },
  { id: "info", title: "Info", key: "i", Content: InfoPanel },
] as const;

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
      <div class="panel-tabs" role="tablist" aria-label="About this session">
        {TABS.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`tab-${tab.id}`}
            aria-selected={tab === shown}
            aria-controls="panel-content"
            title={`${tab.title} (${tab.key})`}
            onClick={() => open(tab.id)}
          >
            {tab.title}
          </button>
        ))}
        <button type="button" class="quiet panel-close" aria-label="Close the panel" onClick={() => void (showsPanel.value = false)}>
          ×
        </button>
      </div>
      <div id="panel-content" class="panel-content" role="tabpanel" aria-labelledby={`tab-${shown.id}`} tabIndex={0}>
        {session !== null && <shown.Content key={session.id} session={session} />}
      </div>
    </aside>
  );
}
