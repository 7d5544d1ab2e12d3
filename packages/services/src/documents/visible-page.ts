// Pages of records of which the caller may see some.

const pagesReadMax = 10;

/** A page of the records that the caller may see. If a page of the store has none, the next ones are read, up to a limit. */
export async function readVisiblePage<T>(
  list: (after: string | undefined) => Promise<{ items: readonly { readonly record: T }[]; next: string | null; head: number }>,
  isVisible: (record: T) => boolean,
  after: string | undefined,
): Promise<{ items: readonly T[]; next: string | null; head: number }> {
  for (let from = after, pagesRead = 1; ; pagesRead += 1) {
    const { items, next, head } = await list(from);
    const found = items.map(({ record }) => record).filter(isVisible);
    if (found.length > 0 || next === null || pagesRead >= pagesReadMax) return { items: found, next, head };
    from = next;
  }
}
