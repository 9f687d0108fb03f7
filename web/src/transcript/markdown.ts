// What is shown, as Markdown to be pasted elsewhere.
import type { Block, Entry } from "../api/types";
import type { Reading } from "./Reading";

const NAMES: Record<string, string> = { user: "User", assistant: "Assistant", tool: "Tool", system: "System", other: "Added by the agent" };

/** Entries in their order; the name of the speaker stands above each change of it. */
export function markdownOf(reading: Reading, entries: readonly Entry[]): string {
  const parts: string[] = [];
  let speaker = "";
  for (const entry of entries) {
    const said = reading.shown(entry).map((block) => ofBlock(reading, entry, block));
    if (!said.some(Boolean)) continue;
    const voice = entry.speaker === "tool" ? "assistant" : (entry.speaker ?? "other");
    if (voice !== speaker && NAMES[voice]) parts.push(`**${NAMES[voice]}**`);
    speaker = voice;
    parts.push(...said.filter(Boolean));
  }
  return `${parts.join("\n\n")}\n`;
}

function ofBlock(reading: Reading, entry: Entry, block: Block): string {
  const text = block.text ?? "";
  switch (block.kind) {
    case "text":
      return block.name ? `*${block.name}* ${text}`.trim() : entry.prompt && entry.blocks?.length === 1 ? entry.prompt : text;
    case "thinking":
      return text.replace(/^/gm, "> ");
    case "call": {
      const answers = block.call === undefined ? [] : reading.path.answersTo(entry.position, block.call);
      const line = answers.find((one) => one.line)?.line?.text ?? block.line?.text ?? block.name ?? "a tool";
      const inside = [fenced(text, block.is_json), ...answers.map((one) => fenced(one.text ?? "", one.is_json))];
      return [`**${line}**`, ...inside.filter(Boolean)].join("\n\n");
    }
    case "media":
      return `[${block.media?.type || "file"}: ${block.media?.name ?? ""}]`;
    default:
      return fenced(text, block.is_json);
  }
}

/** In a fence that the text cannot close. */
function fenced(text: string, isJson = false): string {
  if (!text.trim()) return "";
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([found]) => found.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${isJson ? "json" : ""}\n${text.replace(/\n$/, "")}\n${fence}`;
}
