import { useEffect, useRef, useState } from "preact/hooks";

/** A value that follows another one, but not more often than once in a while: a session that runs changes all the time. */
export function useSlowly<T>(value: T, wait = 1500): T {
  const [slow, setSlow] = useState(value);
  const latest = useRef(value);
  const changedAt = useRef(-wait);
  const waiting = useRef<number | undefined>(undefined);
  latest.current = value;
  useEffect(() => {
    if (value === slow || waiting.current !== undefined) return;
    const rest = changedAt.current + wait - performance.now();
    waiting.current = window.setTimeout(() => {
      waiting.current = undefined;
      changedAt.current = performance.now();
      setSlow(latest.current);
    }, Math.max(0, rest));
  }, [value, slow]);
  useEffect(() => () => clearTimeout(waiting.current), []);
  return slow;
}
