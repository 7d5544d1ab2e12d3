// From --filter and --view to what the API is asked: reads the query line, looks a saved view up, and finds the runs that a worker had part
// in, which the API does not filter by.

import { allItems } from "@astraflow/client";
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

export interface FilterFlags {
  readonly filter?: string | undefined;
  readonly view?: string | undefined;
}

type FilterValues<P extends QueryableList> = Readonly<Partial<Record<QueryKeyOf<P>, string>>>;

/** What a saved view and the filter say together; where both name a key, the filter's word holds. */
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

/** By name or id, shortened while unique; with a page only those of that list. */
export async function findView(nameOrId: string, page: QueryableList | undefined, client: Client): Promise<SavedView> {
  const found: SavedView[] = [];
  for await (const view of allItems((cursor) => client.listViews({ limit: 200, cursor, page }))) found.push(view);
  const named = found.map(({ viewId, name }) => ({ id: viewId, name }));
  const { id } = findByNameOrId(nameOrId, named, "saved view", "astra views list");
  return found.find(({ viewId }) => viewId === id) as SavedView;
}

/** An instant, or how long ago, as the API wants it; the line was checked when it was read. */
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

/** The flags of their own come before the filter. `worker` is apart: a change of many runs cannot be asked by it. */
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

/** Pages asked for those of one worker: each looks at some runs' tasks, and may come short. */
const pagesMax = 50;

/** The newest runs that fit the query and in which the worker had part, by name or instance id. */
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
    terminal.info(`more may fit worker:${stripControlCharacters(worker)}; --limit says how many are looked for`);
    return { items, nextCursor: null, asOf };
  }
  terminal.info(
    `not every older run was looked through for worker:${stripControlCharacters(worker)}; since: and until: say where to look`,
  );
  return { items, nextCursor: null, asOf };
}
