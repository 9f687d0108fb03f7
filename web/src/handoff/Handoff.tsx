// The ways in which a session goes on elsewhere: resume, export, share. Each is a dialog, of any session.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { isShare } from "../api/client";
import { type Command, run, useCommands } from "../app/commands";
import { place } from "../app/router";
import { mayAdmin } from "../app/state";
import { DownloadIcon, GoOnIcon, ShareIcon } from "../parts/icons";
import { lazy } from "../parts/lazy";
import { type Target, withTarget } from "../sessions/actions";
import "./handoff.css";

const ExportDialog = lazy(() => import("./ExportDialog").then((found) => found.ExportDialog));
const ResumeDialog = lazy(() => import("./ResumeDialog").then((found) => found.ResumeDialog));
const ShareDialog = lazy(() => import("./ShareDialog").then((found) => found.ShareDialog));

export type Way = "resume" | "export" | "share";
const DIALOGS = { resume: ResumeDialog, export: ExportDialog, share: ShareDialog };

/** The dialog that is open, and the session that it is about. */
const opened = signal<{ way: Way; session: Target } | null>(null);

export function handOn(way: Way, session: Target): void {
  opened.value = { way, session };
}

/** The ways that are open to the reader. */
export function ways(): Way[] {
  if (isShare()) return ["export"];
  return mayAdmin.value ? ["resume", "export", "share"] : ["resume", "export"];
}

const COMMANDS: Record<Way, Command> = {
  resume: { id: "resume", title: "Resume: the command to go on", group: "Go on", keys: ["o"], run: () => openFor("resume") },
  export: { id: "export", title: "Export this session", group: "Go on", keys: ["e"], run: () => openFor("export") },
  share: { id: "share", title: "Share a link to this session", group: "Go on", keys: ["S"], run: () => openFor("share") },
};

function openFor(way: Way): void {
  withTarget((session) => handOn(way, session));
}

export function Handoff(): JSX.Element | null {
  const offered = ways();
  useCommands(() => offered.map((way) => COMMANDS[way]), [offered.join()]);
  useEffect(() => () => void (opened.value = null), [place.value.id]);
  if (opened.value === null) return null;
  const { way, session } = opened.value;
  const Shown = DIALOGS[way];
  return <Shown key={`${way} ${session.id}`} session={session} onClose={() => void (opened.value = null)} />;
}

const FACES = {
  resume: { name: "Resume", Icon: GoOnIcon },
  export: { name: "Export", Icon: DownloadIcon },
  share: { name: "Share", Icon: ShareIcon },
};

/** In the head of a session. A shared one has its button in the bar. */
export function HandoffButtons(): JSX.Element | null {
  if (isShare()) return null;
  return (
    <div class="handoff-buttons" role="group" aria-label="Resume, export, share">
      {ways().map((way) => {
        const { name, Icon } = FACES[way];
        return (
          <button key={way} type="button" class="quiet" aria-label={name} title={`${name} (${COMMANDS[way].keys![0]})`} onClick={() => run(way)}>
            <Icon />
            <span>{name}</span>
          </button>
        );
      })}
    </div>
  );
}
