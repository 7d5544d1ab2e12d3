// Turns --filter and --view into a query of the API.

import {
  Fault,
  formatQuery,
  omitUndefined,
  parseQuery,
  type QueryableList,
  type QueryKeyOf,
  type Run,
  resolveInstant,
  type SavedView,
} from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import type { CommandContext, TextInput } from "../api/command-context.ts";
import { faultFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { findByNameOrId, findWorkflow } from "./name-lookup.ts";
import { type PageFlags, readPages } from "./pages.ts";

export type FilterFlags = TextInput<never, "filter" | "view">;
export type ListFlags = FilterFlags & PageFlags;

type FilterValues<P extends QueryableList> = Readonly<Partial<Record<QueryKeyOf<P>, string>>>;

/** The values of the saved view and the filter together; the filter wins where both have a key. */
export async function resolveFilter<P extends QueryableList>(
  flags: FilterFlags,
  page: P,
  context: CommandContext,
): Promise<FilterValues<P>> {
  const view =
    flags.view === undefined ? {} : parseQueryLine(viewQueryLine(await findView(flags.view, page, context.client)), page);
  return { ...view, ...parseQueryLine(flags.filter ?? "", page) };
}

export function parseQueryLine<P extends QueryableList>(line: string, page: P): FilterValues<P> {
  const read = parseQuery(line, page);
  if (read instanceof Fault) throw faultFailure(read);
  return read.values;
}

export const viewQueryLine = ({ query }: Pick<SavedView, "query">): string =>
  typeof query === "string" ? query : formatQuery(query);

/** By name or id, or its unique beginning; with a page only views of that list. */
export async function findView(nameOrId: string, page: QueryableList | undefined, client: Client): Promise<SavedView> {
  const { items } = await readPages((cursor) => client.listViews({ limit: 200, cursor, page }), Number.POSITIVE_INFINITY);
  const named = items.map((view) => ({ id: view.viewId, name: view.name, view }));
  return findByNameOrId(nameOrId, named, "saved view", "astra views list").view;
}

/** Whether a text contains all the words of a search, in any order. */
export function matchesEveryWord(search: string | undefined, text: string): boolean {
  const lowerCase = text.toLowerCase();
  return (search ?? "")
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lowerCase.includes(word));
}

/** An instant, or how long ago, as the API takes it; the query line was validated when it was parsed. */
export const toIsoInstant = (value: string | undefined, now: number): string | undefined =>
  value === undefined ? undefined : new Date(resolveInstant(value, now) ?? now).toISOString();

export type RunFilterFlags = FilterFlags &
  TextInput<never, "client" | "workflow" | "since" | "until" | "search"> & {
    readonly status?: string | readonly string[] | undefined;
  };

export type RunQueryFilter = TextInput<never, "status" | "clientId" | "workflowId" | "since" | "until" | "q">;

/** Single flags win over the filter. `worker` is separate: a bulk change does not take it. */
export async function buildRunListQuery(
  flags: RunFilterFlags,
  context: CommandContext,
): Promise<{ query: RunQueryFilter; worker: string | undefined }> {
  const line = await resolveFilter(flags, "runs", context);
  const now = context.now();
  const workflow = flags.workflow ?? line.workflow;
  const query = omitUndefined({
    status: (typeof flags.status === "object" ? flags.status.join(",") : flags.status) ?? line.status,
    clientId: flags.client ?? line.client,
    workflowId: workflow === undefined ? undefined : (await findWorkflow(workflow, context.client)).id,
    since: flags.since ?? toIsoInstant(line.since, now),
    until: flags.until ?? toIsoInstant(line.until, now),
    q: flags.search ?? line.text,
  });
  return { query, worker: line.worker };
}

/** Pages read for the runs of one worker; a page may have fewer items than its limit. */
const pagesMax = 50;

/** The newest runs that match the query and used the worker, by its name or instance id. */
export async function listRunsOfWorker(
  worker: string,
  query: RunQueryFilter,
  limit: number,
  { client, terminal }: CommandContext,
): Promise<{ items: Run[]; nextCursor: null; asOf: number }> {
  const items: Run[] = [];
  const shownName = stripControlCharacters(worker);
  let cursor: string | undefined;
  let asOf = 0;
  for (let pages = 0; pages < pagesMax && items.length < limit; pages += 1) {
    const page = await client.listRuns({ ...query, worker, limit: Math.min(200, limit - items.length), cursor });
    asOf = page.asOf ?? asOf;
    items.push(...page.items);
    if (page.nextCursor === null) return { items, nextCursor: null, asOf };
    cursor = page.nextCursor;
  }
  terminal.info(
    items.length < limit
      ? `Older runs were not searched for worker ${shownName}. Narrow the time with since: and until:.`
      : `More runs of worker ${shownName} may exist. Raise --limit to see them.`,
  );
  return { items, nextCursor: null, asOf };
}
