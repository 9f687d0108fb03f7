// When to read sums again: they tell of no change by themselves.
import { useEffect, useState } from "preact/hooks";
import { onChanges } from "../api/changes";

/** A number that changes when anything in the store did: so many milliseconds later, and while the tab is seen. */
export function useFresh(pause: () => number): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isDue = false;
    const tell = () => {
      timer = undefined;
      isDue = document.hidden;
      if (!isDue) setCount((before) => before + 1);
    };
    const onSeen = () => {
      if (isDue && !document.hidden) tell();
    };
    const soon = () => void (timer ??= setTimeout(tell, pause()));
    const stop = onChanges({ onChange: soon, onStart: soon });
    document.addEventListener("visibilitychange", onSeen);
    return () => {
      stop();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onSeen);
    };
  }, []);
  return count;
}
