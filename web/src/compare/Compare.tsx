import type { JSX } from "preact";

export function Compare(): JSX.Element {
  return <h1>Compare</h1>;
}
