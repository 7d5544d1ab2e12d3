// Lists page by page as one sequence of items.

interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}

/**
 * Every item of a list: `for await (const run of allItems((cursor) => client.listRuns({ status: "failed", cursor })))`. A page may be short
 * or empty although more follows; lists that can be followed end here where the cursor stands still.
 */
export async function* allItems<T>(read: (cursor: string | undefined) => Promise<Page<T>>): AsyncGenerator<T, void> {
  for (let cursor: string | undefined; ; ) {
    const page = await read(cursor);
    yield* page.items;
    if (page.nextCursor === null || page.nextCursor === cursor) return;
    cursor = page.nextCursor;
  }
}
