// Shrinks a failing schedule: leaves out parts, large ones first, as long as the same checker still reports a violation. The caller decides whether a
// schedule still fails.

/** Worlds a shrinking may play. Each is quick, and a schedule rarely has more than some dozens of events. */
export const shrinkTriesMax = 400;

export interface ShrinkResult<T> {
  readonly items: readonly T[];
  readonly tries: number;
}

/** Delta debugging: `fails` must be true of the whole. */
export async function shrinkSchedule<T>(
  whole: readonly T[],
  fails: (items: readonly T[]) => Promise<boolean>,
): Promise<ShrinkResult<T>> {
  let items = whole;
  let tries = 0;
  const stillFails = async (fewer: readonly T[]): Promise<boolean> => tries++ < shrinkTriesMax && (await fails(fewer));
  // Often the faults have nothing to do with it.
  if (items.length > 0 && (await stillFails([]))) return { items: [], tries };
  for (let parts = 2; items.length > 1 && tries < shrinkTriesMax; ) {
    const size = Math.ceil(items.length / parts);
    let fewer: readonly T[] | null = null;
    for (let from = 0; from < items.length && fewer === null; from += size) {
      const rest = [...items.slice(0, from), ...items.slice(from + size)];
      if (rest.length < items.length && (await stillFails(rest))) fewer = rest;
    }
    if (fewer !== null) {
      items = fewer;
      parts = Math.max(2, parts - 1);
    } else if (size === 1) break;
    else parts = Math.min(items.length, parts * 2);
  }
  return { items, tries: Math.min(tries, shrinkTriesMax) };
}
