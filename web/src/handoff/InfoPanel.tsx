import type { JSX } from "preact";
import type { SessionInfo } from "../api/types";

export function InfoPanel({ session }: { session: SessionInfo }): JSX.Element {
  return <p>{session.id}</p>;
}
