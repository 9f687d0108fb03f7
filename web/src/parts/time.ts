// Times for people.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** As "now", "5 min", "3 h", "yesterday", "12 May", "12 May 2024". */
export function ago(when: string | Date, now = new Date()): string {
  const then = new Date(when);
  const seconds = (now.getTime() - then.getTime()) / 1000;
  if (seconds < MINUTE) return "now";
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  if (seconds < 2 * DAY) return "yesterday";
  const year = then.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return then.toLocaleDateString(undefined, { day: "numeric", month: "short", year });
}

/** The whole of it, for tooltips. */
export function exact(when: string | Date): string {
  return new Date(when).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** The hour and minute. */
export function clock(when: string | Date): string {
  return new Date(when).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}
