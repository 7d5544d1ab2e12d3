// Reading a list of the API page by page.

interface ListPage<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  readonly asOf?: number;
}

/** Which part of a list is asked for: so many items, after a cursor, or all that follow. */
export interface PageFlags {
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly all?: boolean;
}

/** Items of one request. */
const requestItemsMax = 200;

type PageRequest = { readonly limit: number; readonly cursor: string | undefined };

/** Never asks for more than is still wanted, so that the next cursor is right behind the last item. */
export function readListPage<T>(
  { limit, cursor, all = false }: PageFlags,
  read: (request: PageRequest) => Promise<ListPage<T>>,
): ReturnType<typeof readPages<T>> {
  return readPages(
    (next, left) => read({ limit: Math.min(requestItemsMax, left), cursor: next }),
    all ? Number.POSITIVE_INFINITY : limit,
    cursor,
  );
}

/** The first items of a list from a cursor on. A page may have fewer items than its limit although more follow. */
export async function readPages<T>(
  read: (cursor: string | undefined, left: number) => Promise<ListPage<T>>,
  max: number,
  after?: string,
): Promise<{ items: T[]; nextCursor: string | null; asOf: number }> {
  const items: T[] = [];
  let asOf = 0;
  for (let cursor = after; ; ) {
    const page = await read(cursor, max - items.length);
    items.push(...page.items);
    asOf = page.asOf ?? asOf;
    const { nextCursor } = page;
    if (nextCursor === null || nextCursor === cursor || items.length >= max)
      return { items: items.slice(0, max), nextCursor, asOf };
    cursor = nextCursor;
  }
}
