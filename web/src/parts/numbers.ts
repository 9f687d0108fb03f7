// Numbers for people.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const CENTS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const SMALL = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 4 });

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

/** Dollars, as the server gives them and the command line has them: "$0.03", "$0.0042", "$1,204.50"; null is unknown. */
export function money(dollars: string | number | null | undefined): string {
  if (dollars === null || dollars === undefined) return "";
  const value = Number(dollars);
  if (value > 0 && value < 0.0001) return "<$0.0001";
  return `$${(value > 0 && value < 1 ? SMALL : CENTS).format(value)}`;
}

/** As 512 B, 3.4 KiB, 120 MiB. */
export function bytes(count: number): string {
  let value = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024) return `${unit === "B" || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

/** "1 message", "2 messages". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${WHOLE.format(count)} ${count === 1 ? one : many}`;
}
