// The dialogs with which a session goes on elsewhere: resume, export, share.
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { isShare } from "../api/client";
import { type Command, useCommands } from "../app/commands";
import { current, mayAdmin } from "../app/state";
import { lazy } from "../parts/lazy";
import "./handoff.css";

const ExportDialog = lazy(() => import("./ExportDialog").then((found) => found.ExportDialog));
const ResumeDialog = lazy(() => import("./ResumeDialog").then((found) => found.ResumeDialog));
const ShareDialog = lazy(() => import("./ShareDialog").then((found) => found.ShareDialog));

type Shown = "resume" | "export" | "share" | null;

export function Handoff(): JSX.Element | null {
  const shown = useSignal<Shown>(null);
  const shared = isShare();
  const mayShare = mayAdmin.value;
  useCommands(() => {
    const open = (what: Shown) => () => void (shown.value = what);
    const offered: Command[] = [{ id: "export", title: "Export this session", group: "Go on", keys: ["e"], run: open("export") }];
    if (!shared) offered.unshift({ id: "resume", title: "Resume: the command to go on", group: "Go on", keys: ["o"], run: open("resume") });
    if (mayShare) offered.push({ id: "share", title: "Share a link to this session", group: "Go on", keys: ["S"], run: open("share") });
    return offered;
  }, [shared, mayShare]);
  const session = current.value;
  const onClose = () => void (shown.value = null);
  if (session === null || shown.value === null) return null;
  if (shown.value === "resume") return <ResumeDialog key={session.id} session={session} onClose={onClose} />;
  if (shown.value === "export") return <ExportDialog key={session.id} session={session} onClose={onClose} />;
  return <ShareDialog key={session.id} session={session} onClose={onClose} />;
}
