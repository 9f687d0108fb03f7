// Two paths side by side: what they share folded, what each has behind it, and the files that differ.
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { ComparedPath, Comparison } from "../api/trees";
import { entryId } from "../api/types";
import { useCommands } from "../app/commands";
import { go, idOf, place, to } from "../app/router";
import { mayFiles } from "../app/state";
import { Changes } from "../files/Changes";
import { plural } from "../parts/numbers";
import { useRead } from "../parts/read";
import "./compare.css";
import { useOnlyOther } from "./other";
import { Common, Side } from "./Path";
import { Picker } from "./Picker";

interface Chosen {
  a: string;
  b: string;
  a_at: string;
  b_at: string;
}

/** Sessions may be named by short ids; one that is not known yet is left out for a moment. */
function chosenOf(query: URLSearchParams): Chosen {
  const one = (name: string) => query.get(name) ?? "";
  return { a: idOf(one("a")) ?? "", b: idOf(one("b")) ?? "", a_at: one("a_at"), b_at: one("b_at") };
}

export function Compare(): JSX.Element {
  const chosen = chosenOf(place.value.query);
  const isChosen = chosen.a !== "" && chosen.b !== "";
  const { value: found, why } = useRead<Comparison>(isChosen ? "/compare" : null, { ...chosen });
  useEffect(() => void (document.title = "Compare · Clew"), []);
  const set = (changes: Partial<Chosen>) => go(to.compare({ ...chosen, ...changes }));
  const isOpen = chosen.a !== "" && chosen.a_at === "" && chosen.b === "";
  useOnlyOther(chosen.a, isOpen, (end) => go(to.compare({ a: chosen.a, b: chosen.a, b_at: end }), { replace: true }));
  const swap = () => go(to.compare({ a: chosen.b, a_at: chosen.b_at, b: chosen.a, b_at: chosen.a_at }));
  useCommands(() => [
    { id: "swap", title: "Swap the two sides", group: "Branches", keys: ["x"], run: swap },
    { id: "compare-back", title: "Back to the session", group: "Branches", keys: ["Escape"], inPalette: false, run: () => go(to.session(chosen.a)) },
  ]);
  return (
    <div class="compare">
      <header class="compare-head">
        <h1>Compare</h1>
        <button type="button" title="Swap the two sides (x)" disabled={!isChosen} onClick={swap}>
          Swap
        </button>
        {found && (
          <button type="button" onClick={() => document.getElementById("compare-files")?.scrollIntoView()}>
            Files
          </button>
        )}
      </header>
      <div class="compare-sides">
        <Picker name="First" session={chosen.a} at={chosen.a_at} onChoose={(a, a_at) => set({ a, a_at })} />
        <Picker name="Second" session={chosen.b} at={chosen.b_at} onChoose={(b, b_at) => set({ b, b_at })} />
      </div>
      {why && (
        <p class="compare-note" role="alert">
          {why}
        </p>
      )}
      {!isChosen && <p class="compare-note">Choose two sessions, or two branches of one.</p>}
      {isChosen && !found && !why && <p class="compare-note">Comparing…</p>}
      {found && <Result key={JSON.stringify(chosen)} found={found} />}
    </div>
  );
}

function Result({ found }: { found: Comparison }): JSX.Element {
  const { a, b, common, same } = found;
  return (
    <>
      {common.entries > 0 ? (
        <Common session={a.session} head={entryId(a.head)} last={a.shared!} entries={common.entries} />
      ) : (
        <p class="compare-note">They have no entries in common.</p>
      )}
      {same && <p class="compare-note">Both paths hold the same entries.</p>}
      {!same && (
        <div class="compare-sides">
          <Column name="First" path={a} />
          <Column name="Second" path={b} />
        </div>
      )}
      <section aria-labelledby="compare-files">
        <h2 id="compare-files" class="compare-title">
          Files
        </h2>
        <Files a={a} b={b} />
      </section>
    </>
  );
}

function Column({ name, path }: { name: string; path: ComparedPath }): JSX.Element {
  return (
    <section class="compare-column" aria-label={`${name}: ${path.title ?? path.session}`}>
      <h2 class="compare-title">
        {name}: {plural(path.entries_after, "entry", "entries")} of its own
      </h2>
      {path.entries_after > 0 ? <Side path={path} /> : <p class="compare-note">This path ends where the other one goes on.</p>}
    </section>
  );
}

function Files({ a, b }: { a: ComparedPath; b: ComparedPath }): JSX.Element {
  if (!mayFiles.value) return <p class="compare-note">Your token may not read files. Sign in with one that has the scope files.</p>;
  if (!a.snapshot || !b.snapshot) {
    const which = a.snapshot ? "The second path has" : b.snapshot ? "The first path has" : "Both paths have";
    return <p class="compare-note">{which} no checkpoint with files, so there is nothing to compare.</p>;
  }
  if (a.snapshot === b.snapshot) return <p class="compare-note">Both paths have the same snapshot of files.</p>;
  return <Changes a={a.snapshot} b={b.snapshot} isOpen />;
}
