// Turns --filter and --view into a query of the API: parses the query line, looks up a saved view, and collects the runs of a worker page
// by page.

import {
  Fault,
  formatQuery,
  parseQuery,
  type QueryableList,
  type QueryKeyOf,
  type Run,
  resolveInstant,
  type SavedView,
} from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import type { CommandContext } from "../api/command-context.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { findByNameOrId, findWorkflow } from "./name-lookup.ts";
import { readPages } from "./pages.ts";

export interface FilterFlags {
  readonly filter?: string | undefined;
  readonly view?: string | undefined;
}

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

function parseQueryLine<P extends QueryableList>(line: string, page: P): FilterValues<P> {
  const read = parseQuery(line, page);
  if (read instanceof Fault)
    throw new CliFailure(exitCodes.usage, { error: read.code, message: read.message, details: read.details });
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

/** An instant, or how long ago, as the API takes it; the query line was validated when it was parsed. */
export const toIsoInstant = (value: string, now: number): string => new Date(resolveInstant(value, now) ?? now).toISOString();

export interface RunFilterFlags extends FilterFlags {
  readonly status?: string | readonly string[] | undefined;
  readonly client?: string | undefined;
  readonly workflow?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly search?: string | undefined;
}

export interface RunQueryFilter {
  readonly status?: string | undefined;
  readonly clientId?: string | undefined;
  readonly workflowId?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly q?: string | undefined;
}

/** Single flags win over the filter. `worker` is separate: a bulk change does not take it. */
export async function buildRunListQuery(
  flags: RunFilterFlags,
  context: CommandContext,
): Promise<{ query: RunQueryFilter; worker: string | undefined }> {
  const line = await resolveFilter(flags, "runs", context);
  const now = context.now();
  const time = (flag: string | undefined, value: string | undefined): string | undefined =>
    flag ?? (value === undefined ? undefined : toIsoInstant(value, now));
  const workflow = flags.workflow ?? line.workflow;
  const status = typeof flags.status === "string" ? flags.status : flags.status?.join(",");
  const query = {
    status: status ?? line.status,
    clientId: flags.client ?? line.client,
    workflowId: workflow === undefined ? undefined : (await findWorkflow(workflow, context.client)).id,
    since: time(flags.since, line.since),
    until: time(flags.until, line.until),
    q: flags.search ?? line.text,
  };
  const asked = Object.entries(query).filter(([, value]) => value !== undefined);
  return { query: Object.fromEntries(asked), worker: line.worker };
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
  let cursor: string | undefined;
  let asOf = 0;
  for (let pages = 0; pages < pagesMax; pages += 1) {
    const page = await client.listRuns({ ...query, worker, limit: Math.min(200, limit - items.length), cursor });
    asOf = page.asOf ?? asOf;
    items.push(...page.items);
    if (page.nextCursor === null) return { items, nextCursor: null, asOf };
    cursor = page.nextCursor;
    if (items.length < limit) continue;
    terminal.info(`More runs of worker ${stripControlCharacters(worker)} may exist. Raise --limit to see them.`);
    return { items, nextCursor: null, asOf };
  }
  terminal.info(
    `Older runs were not searched for worker ${stripControlCharacters(worker)}. Narrow the time with since: and until:.`,
  );
  return { items, nextCursor: null, asOf };
}
