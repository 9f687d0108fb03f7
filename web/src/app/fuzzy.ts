// Finding a text by some of its letters, in their order.

export interface Match {
  score: number;
  /** Where the letters are. */
  at: number[];
}

const isStart = (text: string, index: number) => index === 0 || !/[\p{L}\p{N}]/u.test(text[index - 1]!);

/** How well a text has the letters that were typed; null: it lacks one. Words that begin with them come first. */
export function fuzzy(typed: string, text: string): Match | null {
  const wanted = typed.toLowerCase().replace(/\s+/g, " ").trim();
  const given = text.toLowerCase();
  // Lower case may be longer than upper case: then places would be wrong.
  const within = given.length === text.length ? given : text;
  const whole = within.indexOf(wanted);
  if (whole >= 0) {
    const at = Array.from(wanted, (_, index) => whole + index);
    return { score: 1000 + (isStart(within, whole) ? 500 : 0) - whole - within.length / 100, at };
  }
  const at: number[] = [];
  let score = 0;
  let from = 0;
  for (const letter of wanted) {
    if (letter === " ") continue;
    const found = bestFrom(within, letter, from);
    if (found < 0) return null;
    const isNext = at.length > 0 && at.at(-1) === found - 1;
    score += isNext ? 8 : isStart(within, found) ? 6 : 1;
    at.push(found);
    from = found + 1;
  }
  const spread = at.at(-1)! - at[0]! + 1 - at.length;
  // Letters strewn over a long text are no find.
  return spread > 4 * at.length + 8 ? null : { score: score - spread - within.length / 100, at };
}

/** The next place of a letter: directly here, else at the start of a word, else anywhere. */
function bestFrom(text: string, letter: string, from: number): number {
  const first = text.indexOf(letter, from);
  if (first < 0 || first === from || isStart(text, first)) return first;
  for (let next = text.indexOf(letter, first + 1); next >= 0; next = text.indexOf(letter, next + 1)) {
    if (isStart(text, next)) return next;
  }
  return first;
}
