// What a restore does to files, or would do.
import type { JSX } from "preact";
import { me } from "../api/client";
import type { Restored } from "../api/trees";
import { mayFiles } from "../app/state";
import { plural } from "../parts/numbers";
import "./files.css";

const MOST = 500;
const VERBS = { create: "creates", overwrite: "writes", delete: "deletes", mode: "changes the mode of" };

export function Plan({ plan, would = false }: { plan: Restored; would?: boolean }): JSX.Element {
  const count = (verb: string) => plan.changes.filter((one) => one.verb === verb && one.kind !== "directory").length;
  const written = count("create") + count("overwrite") + count("mode");
  const conflicts = plan.changes.filter((one) => one.conflict).length;
  return (
    <div class="files-plan">
      <p>
        {would ? "It will write " : "It wrote "}
        <b>{plural(written, "file")}</b> and {would ? "delete " : "deleted "}
        <b>{plural(count("delete"), "file")}</b>.
        {conflicts > 0 && (
          <b class="files-bad">
            {" "}
            {plural(conflicts, "file")} changed since the last snapshot.
          </b>
        )}
      </p>
      <ul aria-label="What happens to the files">
        {plan.changes.slice(0, MOST).map((one) => (
          <li key={one.path}>
            <span class={`files-sign files-${one.verb}`} title={VERBS[one.verb]} aria-label={VERBS[one.verb]} role="img">
              {{ create: "+", overwrite: "~", delete: "−", mode: "~" }[one.verb]}
            </span>{" "}
            <code>
              {one.path}
              {one.kind === "directory" && "/"}
            </code>
            {one.conflict && <small class="files-bad"> changed since the last snapshot</small>}
          </li>
        ))}
        {plan.changes.length > MOST && <li>and {plural(plan.changes.length - MOST, "other")}</li>}
      </ul>
      {plan.kept.length > 0 && (
        <details>
          <summary>{plural(plan.kept.length, "path")} left alone</summary>
          <ul>
            {plan.kept.slice(0, MOST).map((one) => (
              <li key={one.path}>
                <code>{one.path}</code> <small>{one.reason}</small>
              </li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

/** Why files stay as they are, and what to do about it. */
export function HowToAllow(): JSX.Element {
  if (!mayFiles.value || me.value?.kind === "token") {
    return (
      <p class="files-why" role="note">
        Files stay as they are: your token, or this server, may not change them. Ask the owner of the server.
      </p>
    );
  }
  return (
    <p class="files-why" role="note">
      Files stay as they are: this server does not change files. To let it, start it with <code>clew serve --allow files</code>, and open
      the page on the same machine.
    </p>
  );
}
