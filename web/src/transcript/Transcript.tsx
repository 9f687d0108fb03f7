import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { get, session } from "../api/client";
import type { Entry, EntryPage } from "../api/types";
import { told } from "../app/toast";
import { Markup } from "../parts/Markup";

export function Transcript({ id, at }: { id: string; at: string | null }): JSX.Element {
  const found = useSignal<readonly Entry[]>([]);
  useEffect(() => {
    get<EntryPage>(session(id, "/entries"), { view: "blocks", last: 50, at }).then((page) => void (found.value = page.data), told);
  }, []);
  return (
    <div role="feed" aria-label="Transcript" id="transcript">
      {found.value.map((entry) => (
        <article key={entry.id} id={entry.id}>
          {entry.blocks?.map((block, index) => <Markup key={index} html={block.html ?? ""} />)}
        </article>
      ))}
    </div>
  );
}
