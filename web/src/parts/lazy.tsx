// Views that are loaded when they are first looked at: a visit of the list need not bring the charts.
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { told } from "../app/toast";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): (props: P) => JSX.Element {
  let loaded: ComponentType<P> | null = null;
  return function Lazy(props: P): JSX.Element {
    const [Shown, setShown] = useState<ComponentType<P> | null>(() => loaded);
    useEffect(() => {
      if (loaded) return;
      load().then((found) => {
        loaded = found;
        setShown(() => found);
      }, told);
    }, []);
    return Shown === null ? <p class="loading" role="status">Loading…</p> : <Shown {...props} />;
  };
}
