import type { JSX } from "preact";

export function UsageView(): JSX.Element {
  return <h1>Usage</h1>;
}
