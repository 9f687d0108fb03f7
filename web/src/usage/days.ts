// Days as 2026-11-01, in the time zone of this browser.

import { DAY_TEXT, startOf } from "../parts/time";

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function two(number: number): string {
  return String(number).padStart(2, "0");
}

export function dayOf(when: Date): string {
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
}

/** So many days later. By the calendar: a day may have 23 or 25 hours. */
export function later(day: string, count: number): string {
  const found = startOf(day);
  found.setDate(found.getDate() + count);
  return dayOf(found);
}

/** The Monday of its week. */
export function weekOf(day: string): string {
  return later(day, -((startOf(day).getDay() + 6) % 7));
}

export function monthOf(day: string): string {
  return `${day.slice(0, 8)}01`;
}

/** The day of a filter: of a day, of a moment, or of how long ago (`7d`). Null: it is none of these. */
export function dayOfFilter(text: string | null, now = new Date()): string | null {
  if (text === null) return null;
  if (DAY_TEXT.test(text)) return text;
  const ago = /^(\d+)([mhdw])$/.exec(text);
  const minutes = { m: 1, h: 60, d: 1440, w: 10080 };
  const found = ago
    ? new Date(now.getTime() - Number(ago[1]) * minutes[ago[2] as keyof typeof minutes] * 60_000)
    : new Date(text);
  return Number.isNaN(found.getTime()) ? null : dayOf(found);
}

/** As "12 Nov", with the year if it is another one than this. */
export function named(day: string, options: Intl.DateTimeFormatOptions = { day: "numeric", month: "short" }): string {
  const found = startOf(day);
  if (Number.isNaN(found.getTime())) return day;
  const year = found.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return found.toLocaleDateString(undefined, { ...options, year });
}
