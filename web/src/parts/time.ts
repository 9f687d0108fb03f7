// Times for people.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Days of the calendar between two moments, where the reader is. One may have 23 or 25 hours. */
function daysBetween(then: Date, now: Date): number {
  const date = (when: Date) => Date.UTC(when.getFullYear(), when.getMonth(), when.getDate());
  return (date(now) - date(then)) / (DAY * 1000);
}

/** As "now", "5 min", "3 h", "yesterday", "12 May", "12 May 2024". */
export function ago(when: string | Date, now = new Date()): string {
  const then = new Date(when);
  const seconds = (now.getTime() - then.getTime()) / 1000;
  if (seconds < MINUTE) return "now";
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  if (daysBetween(then, now) < 2) return "yesterday";
  return (then.getFullYear() === now.getFullYear() ? DAY_ONLY : WITH_YEAR).format(then);
}

// Made once: making one takes longer than using it a hundred times.
const DAY_ONLY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const WITH_YEAR = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** The whole of it, for tooltips. */
export function exact(when: string | Date): string {
  return EXACT.format(new Date(when));
}

/** The hour and minute, with the day if it is not today. */
export function moment(when: string | Date): string {
  const then = new Date(when);
  return (then.toDateString() === new Date().toDateString() ? CLOCK : DAY_AND_CLOCK).format(then);
}

/** The hour and minute. */
export function clock(when: string | Date): string {
  return CLOCK.format(new Date(when));
}

/** A day as 2026-11-01. */
export const DAY_TEXT = /^\d{4}-\d\d-\d\d$/;

/** The first moment of a day. */
export function startOf(day: string): Date {
  return new Date(`${day}T00:00:00`);
}

/** A filter of the address, as the server takes it: a day is that of this time zone, and not of UTC. */
export function momentOf(text: string | null): string | null {
  return text !== null && DAY_TEXT.test(text) ? startOf(text).toISOString() : text;
}
