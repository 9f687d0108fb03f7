// The frame: sessions at the left, what is looked at in the middle, what belongs to it at the right.
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { onChanges } from "../api/changes";
import { get, isShare, me, online, session as at } from "../api/client";
import type { SessionInfo } from "../api/types";
import { Moves } from "../branches/Moves";
import { Handoff } from "../handoff/Handoff";
import { lazy } from "../parts/lazy";
import { Sidebar } from "../sessions/Sidebar";
import { Transcript } from "../transcript/Transcript";
import { onKey, useCommands } from "./commands";
import { KeySheet } from "./KeySheet";
import { Palette } from "./Palette";
import { Panel } from "./Panel";
import { go, onLinkClick, place, to } from "./router";
import { current, cursor, isNarrow, showsPanel, showsSidebar, titled } from "./state";
import { Toasts, told } from "./toast";
import { TopBar } from "./TopBar";
import "../today/watching"; // the title counts who waits, whatever is looked at

const SignIn = lazy(() => import("./SignIn").then((found) => found.SignIn));
const AmbiguousAddress = lazy(() => import("./Ambiguous").then((found) => found.AmbiguousAddress));
const Today = lazy(() => import("../today/Today").then((found) => found.Today));
const Compare = lazy(() => import("../compare/Compare").then((found) => found.Compare));
const UsageView = lazy(() => import("../usage/UsageView").then((found) => found.UsageView));

export function App(): JSX.Element {
  useEffect(() => {
    document.addEventListener("click", onLinkClick);
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("click", onLinkClick);
      document.removeEventListener("keydown", onKey);
    };
  }, []);
  if (me.value === undefined) return <p class="loading" role="status">Loading…</p>;
  return (
    <>
      {me.value === null ? <SignIn /> : <Frame />}
      <Toasts />
    </>
  );
}

function Frame(): JSX.Element {
  const { view, id } = place.value;
  const shared = isShare() ? me.value!.session : null;
  const shown = shared ?? (view === "session" ? id : null);
  useCurrent(shown);
  useCommands(() => [
    { id: "sidebar", title: "Show or hide the sessions", group: "General", keys: ["s"], run: () => void (showsSidebar.value = !showsSidebar.value) },
    { id: "panel", title: "Show or hide the panel", group: "General", keys: ["p"], run: () => void (showsPanel.value = !showsPanel.value) },
    { id: "home", title: "All sessions", group: "General", keys: ["g h"], run: () => go(to.home()) },
    { id: "usage", title: "Usage: cost and tokens", group: "Usage", keys: ["g u"], run: () => go(to.usage()) },
  ]);
  const hasPanel = shown !== null && shared === null && showsPanel.value;
  const hasSidebar = shared === null && showsSidebar.value;
  const classes = ["frame", `frame-${shared === null ? view : "shared"}`];
  if (hasSidebar) classes.push("has-sidebar");
  if (hasPanel) classes.push("has-panel");
  return (
    <div class={classes.join(" ")}>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <TopBar />
      {!online.value && (
        <p class="offline" role="status">
          The server does not answer. Trying again…
        </p>
      )}
      {shared === null && <Sidebar />}
      <main id="main" tabIndex={-1}>
        {shown !== null && <Transcript key={`${shown} ${place.value.query.get("at") ?? ""}`} id={shown} at={place.value.query.get("at")} />}
        {shown === null && view === "compare" && <Compare />}
        {shown === null && view === "usage" && <UsageView />}
        {shown === null && view === "home" && <Today />}
        {shown === null && view === "session" && <AmbiguousAddress />}
      </main>
      {shown !== null && shared === null && <Panel />}
      {shown !== null && shared === null && <Moves />}
      <Handoff />
      <Palette />
      <KeySheet />
    </div>
  );
}

/** Keep `current` as the server tells it: read when the session is opened, and again when it changes. */
function useCurrent(id: string | null): void {
  useEffect(() => {
    current.value = null;
    cursor.value = null;
    if (isNarrow.peek()) showsPanel.value = place.peek().query.has("panel");
    if (id === null) return;
    const over = new AbortController();
    let waiting = false;
    const read = async () => {
      waiting = false;
      current.value = await get<SessionInfo>(at(id), {}, over.signal);
    };
    read().catch(told);
    // The stream of the store says that it changed; what changed is read then, at most four times a second.
    const stop = isShare()
      ? () => undefined
      : onChanges({
          onChange: (change) => {
            if (waiting || change.session !== id) return;
            waiting = true;
            setTimeout(() => read().catch(() => undefined), 250);
          },
        });
    return () => {
      over.abort();
      stop();
      // Whoever signs out leaves nothing behind, the title of the tab included.
      current.value = null;
      document.title = titled();
    };
  }, [id, me.value]);
}

/** The address names an entry behind `#`: it stays as it is. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
