// Reading a list of the API page by page.

interface ListPage<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  readonly asOf?: number;
}

/** The first items of a list. A page may have fewer items than its limit although more follow. */
export async function readPages<T>(
  read: (cursor: string | undefined) => Promise<ListPage<T>>,
  max: number,
): Promise<{ items: T[]; nextCursor: string | null; asOf: number }> {
  const items: T[] = [];
  let asOf = 0;
  for (let cursor: string | undefined; ; ) {
    const page = await read(cursor);
    items.push(...page.items);
    asOf = page.asOf ?? asOf;
    const { nextCursor } = page;
    if (nextCursor === null || nextCursor === cursor || items.length >= max)
      return { items: items.slice(0, max), nextCursor, asOf };
    cursor = nextCursor;
  }
}
