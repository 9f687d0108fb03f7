// Which call started which subagent.
import { signal } from "@preact/signals";
import { get, isShare } from "../api/client";
import type { Block, Page, SessionInfo } from "../api/types";

const MOST = 200;

/** The subagents of one session, read when the first call that may have started one is drawn. */
export class Subagents {
  private readonly found = signal<readonly SessionInfo[] | null>(null);
  private isAsked = false;

  constructor(private readonly id: string) {}

  /** The one that a call started; null: none, or nothing tells. */
  startedBy(call: Block, answers: readonly Block[]): SessionInfo | null {
    if (!this.isAsked && !isShare()) {
      this.isAsked = true;
      get<Page<SessionInfo>>("/sessions", { parent: this.id, limit: MOST }).then(
        (page) => void (this.found.value = page.data),
        () => undefined, // then there are no links
      );
    }
    const all = this.found.value ?? [];
    const said = answers.map((one) => one.text ?? "").join("\n");
    return all.find((one) => callOf(one) === call.call) ?? all.find((one) => isNamed(one.id, said)) ?? null;
  }
}

/** The call that started it, if its program wrote it down. */
function callOf({ metadata }: SessionInfo): unknown {
  const told = { ...metadata, ...(metadata.agent_meta as Record<string, unknown> | undefined) };
  return told.toolUseId ?? told.tool_use_id;
}

/** Whether a result names it. */
function isNamed(id: string, said: string): boolean {
  const name = id.replace(/^.*[/:]/, "").replace(/^agent-/, "");
  return name.length > 6 && said.includes(name);
}
