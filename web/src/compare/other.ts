// What a session is compared with, if nobody chose and there is one possibility only.
import { useEffect } from "preact/hooks";
import { session as at } from "../api/client";
import type { Tree } from "../api/trees";
import { entryId } from "../api/types";
import { leaves } from "../branches/lanes";
import { useRead } from "../parts/read";

/** Choose the end of the only other branch for the second side, unless somebody chose one, or a branch for the first side. */
export function useOnlyOther(a: string, isOpen: boolean, choose: (at: string) => void): void {
  const { value: tree } = useRead<Tree>(isOpen ? at(a, "/tree") : null);
  useEffect(() => {
    const ends = tree ? leaves(tree) : [];
    if (isOpen && ends.length === 1) choose(entryId(ends[0]!));
  }, [tree, isOpen]);
}
