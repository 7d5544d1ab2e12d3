// What a thread that serves all callers may do for one of them. A request that needs more is carried out on a thread of its own: whoever runs
// requests on the shared thread catches NeedsOwnThread, which is thrown before anything was changed, and begins again there.

import type { PageOf, PageQuery, StoreReader } from "@astraflow/engine";

export interface InPlaceLimits {
  /** Characters of definitions, documents, parameters and results that one page of the store may bring. */
  readonly textCharsMax: number;
  readonly rowsMax: number;
  /** Steps for the schemas of a workflow. */
  readonly checkStepsMax: number;
}

/** Each is some milliseconds of work: many small requests at once must not hold the thread either. */
export const sharedThreadLimits: InPlaceLimits = { textCharsMax: 64 * 1024, rowsMax: 1_000, checkStepsMax: 10_000 };

export class NeedsOwnThread extends Error {
  override readonly name = "NeedsOwnThread";
}

/** The same reader; a page with more than the limits allow is not handed out. */
export function limitReader(reader: StoreReader, { textCharsMax, rowsMax }: InPlaceLimits): StoreReader {
  return {
    events: (query) => reader.events(query),
    async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
      const page = await reader.page(query);
      if (!pagesWithTexts.has(query.page)) return page;
      const { rows, chars } = measurePage(page);
      if (rows > rowsMax || chars > textCharsMax)
        throw new NeedsOwnThread(`page ${query.page} has ${rows} rows and ${chars} characters`);
      return page;
    },
    close: () => reader.close(),
  };
}

/** The others are short, and some of them are read after something was changed. */
const pagesWithTexts: ReadonlySet<PageQuery["page"]> = new Set<PageQuery["page"]>(["run", "tasks", "task", "docs", "doc"]);

/** The long texts of rows: bodies of documents, definitions, values of tasks. */
const textFields = ["body", "workflow", "params", "result", "state"] as const;

function measurePage(page: object): { rows: number; chars: number } {
  const { items = [], detail, task } = page as Readonly<Record<string, unknown>>;
  const { tasks = [] } = (detail ?? {}) as { readonly tasks?: readonly unknown[] };
  const rows = [...(items as readonly unknown[]), ...tasks, detail, task];
  let chars = 0;
  for (const row of rows) {
    if (typeof row !== "object" || row === null) continue;
    for (const field of textFields) {
      const text = (row as Readonly<Record<string, unknown>>)[field];
      if (typeof text === "string") chars += text.length;
    }
  }
  return { rows: rows.length, chars };
}
