// The facts of a session.
import type { ComponentChildren, JSX } from "preact";
import { entryId, type SessionInfo } from "../api/types";
import { to } from "../app/router";
import { CopyButton } from "../parts/Copy";
import { bytes, plural } from "../parts/numbers";
import { ago, exact } from "../parts/time";
import "./handoff.css";

export function InfoPanel({ session }: { session: SessionInfo }): JSX.Element {
  const { forked_from: base, metadata } = session;
  const hasMetadata = Object.keys(metadata).length > 0;
  return (
    <div class="info">
      {session.damaged !== null && (
        <p class="info-damaged" role="alert">
          This session is damaged: {session.damaged}
        </p>
      )}
      <dl>
        <Fact name="Id">
          <code>{session.id}</code> <CopyButton text={session.id} name="Copy the id" />
        </Fact>
        {session.aliases.length > 0 && <Fact name="Also called">{session.aliases.join(", ")}</Fact>}
        <Fact name="Status">{session.status}</Fact>
        {session.agent !== null && <Fact name="Agent">{session.agent}</Fact>}
        {session.model !== null && <Fact name="Model">{session.model}</Fact>}
        {session.workspace !== null && (
          <Fact name="Workspace">
            <code>{session.workspace}</code> <CopyButton text={session.workspace} name="Copy the workspace" />
          </Fact>
        )}
        {session.tags.length > 0 && (
          <Fact name="Tags">
            {session.tags.map((tag) => (
              <a key={tag} class="info-tag" href={to.home({ tag, q: null })}>
                {tag}
              </a>
            ))}
          </Fact>
        )}
        <Fact name="Created">
          <time dateTime={session.created_at}>{exact(session.created_at)}</time>
        </Fact>
        <Fact name="Active">
          <time dateTime={session.updated_at} title={exact(session.updated_at)}>
            {ago(session.updated_at)}
          </time>
        </Fact>
        <Fact name="Messages">
          {session.messages.toLocaleString("en-US")} <small>({plural(session.user_turns, "prompt")})</small>
        </Fact>
        <Fact name="Size">{bytes(session.bytes)}</Fact>
        {base !== null && (
          <Fact name="Forked from">
            <a href={to.session(base.session, { at: entryId(base.head) }, entryId(base.head))}>{base.session}</a>
          </Fact>
        )}
        {session.parent !== null && (
          <Fact name="Subagent of">
            <a href={to.session(session.parent)}>{session.parent}</a>
          </Fact>
        )}
        {hasMetadata && (
          <Fact name="Metadata">
            <pre tabIndex={0}>{JSON.stringify(metadata, null, 2)}</pre>
          </Fact>
        )}
      </dl>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
