import { signal } from "@preact/signals";

/** Now, in milliseconds: "5 min" and "active now" do not stay true. */
export const clock = signal(Date.now());
setInterval(() => {
  if (!document.hidden) clock.value = Date.now();
}, 20_000);
