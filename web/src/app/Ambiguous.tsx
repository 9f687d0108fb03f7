// An address that fits several sessions: the ones that it may mean.
import type { JSX } from "preact";
import { ambiguous } from "./names";
import { to } from "./router";

export function AmbiguousAddress(): JSX.Element | null {
  if (ambiguous.value === null) return null;
  const { name, why, sessions } = ambiguous.value;
  return (
    <div class="welcome" role="alert">
      <h1>Which session is {name}?</h1>
      <p>{why[0]!.toUpperCase() + why.slice(1, why.lastIndexOf(":"))}.</p>
      <ul class="welcome-choice">
        {sessions.map((one) => (
          <li key={one.id}>
            <a href={to.session(one.id)}>{one.short_id}</a> {one.title}
          </li>
        ))}
      </ul>
    </div>
  );
}
