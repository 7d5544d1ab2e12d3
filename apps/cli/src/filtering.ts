// From --filter and --view to what the API is asked: reads the query line, looks a saved view up, and finds the runs that a worker had part
// in, which the API does not filter by.

import { allItems } from "@astraflow/client";
import {
  Fault,
  instantOf,
  type QueryKeyOf,
  type QueryPage,
  type Run,
  readQueryLine,
  type SavedView,
  writeQueryLine,
} from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, exitCodes } from "./failure.ts";
import { findWorkflow, pick } from "./finding.ts";
import type { Place } from "./place.ts";
import { tame } from "./terminal.ts";

export interface FilterWords {
  readonly filter?: string | undefined;
  readonly view?: string | undefined;
}

type Values<P extends QueryPage> = Readonly<Partial<Record<QueryKeyOf<P>, string>>>;

/** What a saved view and the filter say together; where both name a key, the filter's word holds. */
export async function valuesOf<P extends QueryPage>(words: FilterWords, page: P, place: Place): Promise<Values<P>> {
  const view = words.view === undefined ? {} : readValues(lineOf(await findView(words.view, page, place.client)), page);
  return { ...view, ...readValues(words.filter ?? "", page) };
}

function readValues<P extends QueryPage>(line: string, page: P): Values<P> {
  const read = readQueryLine(line, page);
  if (read instanceof Fault)
    throw new CliFailure(exitCodes.usage, { error: read.code, message: read.message, details: read.details });
  return read.values;
}

export const lineOf = ({ query }: Pick<SavedView, "query">): string =>
  typeof query === "string" ? query : writeQueryLine(query);

/** By name or id, shortened while unique; with a page only those of that list. */
export async function findView(word: string, page: QueryPage | undefined, client: Client): Promise<SavedView> {
  const found: SavedView[] = [];
  for await (const view of allItems((cursor) => client.listViews({ limit: 200, cursor, page }))) found.push(view);
  const named = found.map(({ viewId, name }) => ({ id: viewId, name }));
  const { id } = pick(word, named, "saved view", "astra views list");
  return found.find(({ viewId }) => viewId === id) as SavedView;
}

/** An instant, or how long ago, as the API wants it; the line was checked when it was read. */
export const instantText = (value: string, now: number): string => new Date(instantOf(value, now) ?? now).toISOString();

export interface RunsWords extends FilterWords {
  readonly status?: string | readonly string[] | undefined;
  readonly client?: string | undefined;
  readonly workflow?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly search?: string | undefined;
}

export interface RunsQuery {
  readonly status?: string | undefined;
  readonly clientId?: string | undefined;
  readonly workflowId?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly q?: string | undefined;
}

/** The flags of their own come before the filter. `worker` is apart: the API is not asked by it. */
export async function runsQuery(words: RunsWords, place: Place): Promise<{ query: RunsQuery; worker: string | undefined }> {
  const line = await valuesOf(words, "runs", place);
  const now = place.now();
  const time = (flag: string | undefined, value: string | undefined): string | undefined =>
    flag ?? (value === undefined ? undefined : instantText(value, now));
  const workflow = words.workflow ?? line.workflow;
  const status = typeof words.status === "string" ? words.status : words.status?.join(",");
  const query = {
    status: status ?? line.status,
    clientId: words.client ?? line.client,
    workflowId: workflow === undefined ? undefined : (await findWorkflow(workflow, place.client)).id,
    since: time(words.since, line.since),
    until: time(words.until, line.until),
    q: words.search ?? line.text,
  };
  const asked = Object.entries(query).filter(([, value]) => value !== undefined);
  return { query: Object.fromEntries(asked), worker: line.worker };
}

/** Runs looked through for those of one worker. */
const lookedThroughMax = 1_000;
const askedAtOnce = 8;

/** Nodes of one run looked through; a larger run is mostly found by its bindings already. */
const nodesMax = 1_000;

/** Bindings name who did work; who only failed at it stands with the nodes. */
async function hasPart(worker: string, runId: string, client: Client): Promise<boolean> {
  const { items } = await client.listRunBindings({ runId });
  if (items.some(({ workerName, workerId }) => workerName === worker || workerId === worker)) return true;
  let looked = 0;
  for await (const { workerName } of allItems((cursor) => client.listRunNodes({ runId, limit: 200, cursor }))) {
    if (workerName === worker) return true;
    if (++looked >= nodesMax) break;
  }
  return false;
}

/** The newest runs that fit the query and in which the worker had part, by name or instance id. */
export async function runsOfWorker(
  worker: string,
  query: RunsQuery,
  limit: number,
  { client, terminal }: Place,
): Promise<{ items: Run[]; nextCursor: null; asOf: number }> {
  const items: Run[] = [];
  let cursor: string | undefined;
  let asOf = 0;
  for (let looked = 0; looked < lookedThroughMax; ) {
    const page = await client.listRuns({ ...query, limit: 200, cursor });
    asOf = page.asOf ?? asOf;
    for (let at = 0; at < page.items.length; at += askedAtOnce) {
      const some = page.items.slice(at, at + askedAtOnce);
      const hadPart = await Promise.all(some.map(({ runId }) => hasPart(worker, runId, client)));
      items.push(...some.filter((_, one) => hadPart[one]).slice(0, limit - items.length));
      const isMore = at + askedAtOnce < page.items.length || page.nextCursor !== null;
      if (items.length >= limit && isMore)
        terminal.say(`more may fit worker:${tame(worker)}; --limit says how many are looked for`);
      if (items.length >= limit) return { items, nextCursor: null, asOf };
    }
    looked += page.items.length;
    if (page.nextCursor === null) return { items, nextCursor: null, asOf };
    cursor = page.nextCursor;
  }
  terminal.say(`only the latest ${lookedThroughMax} runs that fit were looked through for worker:${tame(worker)}`);
  return { items, nextCursor: null, asOf };
}
