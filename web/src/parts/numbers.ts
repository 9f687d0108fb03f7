// Numbers for people.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** As 950, 1.2k, 34k, 5.6M. */
export function short(count: number): string {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (count >= size) {
      const value = count / size;
      return `${value >= 10 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, "")}${letter}`;
    }
  }
  return String(count);
}

/** Dollars, as the server gives them: "$0.03", "$1,204". Less than a cent is "<$0.01"; null is unknown. */
export function money(dollars: string | number | null | undefined): string {
  if (dollars === null || dollars === undefined) return "";
  const value = Number(dollars);
  if (value === 0) return "$0";
  if (value < 0.01) return "<$0.01";
  return `$${value >= 100 ? WHOLE.format(value) : value.toFixed(2)}`;
}

/** As 512 B, 3.4 kB, 12 MB. */
export function bytes(count: number): string {
  return count < 1000 ? `${count} B` : `${short(count)}B`;
}

/** "1 message", "2 messages". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${WHOLE.format(count)} ${count === 1 ? one : many}`;
}
