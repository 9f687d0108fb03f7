import type { JSX } from "preact";
import type { SessionInfo } from "../api/types";

export function FilePanel({ session }: { session: SessionInfo }): JSX.Element {
  return <p>{session.id}</p>;
}
