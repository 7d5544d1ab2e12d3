// Which runs a change of many is about: page by page, by the filter of the list or by name. What is done to them is bulk-changes.ts's.

import { matchesAllWords, type PageQuery, type RunRow, runSearchTerms, type StoreReader, searchWords } from "@astraflow/engine";
import type { BulkFilter, BulkRequest } from "@astraflow/protocol";

export const bulkPageMax = 50;

/** Newest first, so that runs which the work itself starts are never met. */
export async function readMatchingRuns(
  reader: StoreReader,
  tenant: string,
  { filter }: BulkRequest,
  cursor: string | null,
): Promise<{ items: readonly RunRow[]; next: string | null }> {
  const { status, workflowId, clientId, since, until, q, runIds } = filter;
  if (runIds !== undefined) return readNamedRuns(reader, tenant, filter, runIds, cursor);
  const query: PageQuery = {
    page: "runs",
    tenant,
    limit: bulkPageMax,
    ...(cursor !== null && { before: cursor }),
    ...(workflowId !== undefined && { source: workflowId }),
    ...(clientId !== undefined && { client: clientId }),
    ...(since !== undefined && { since: Date.parse(since) }),
    ...(until !== undefined && { until: Date.parse(until) }),
    ...(q !== undefined && q.trim() !== "" && { search: q }),
  };
  const { items, next } = await reader.page(query);
  return { items: items.filter((run) => hasStatus(run, status)), next };
}

const hasStatus = ({ phase }: RunRow, status: BulkFilter["status"]): boolean =>
  status === undefined || status.some((one) => one === phase || (one === "running" && phase === "ending"));

/** Whoever names runs and says more of them means those of which all of it is true. */
async function readNamedRuns(
  reader: StoreReader,
  tenant: string,
  filter: BulkFilter,
  ids: readonly string[],
  cursor: string | null,
) {
  const { status, workflowId, clientId, since, until, q } = filter;
  const matchesFilter = (run: RunRow): boolean =>
    hasStatus(run, status) &&
    (workflowId === undefined || run.source === workflowId) &&
    (clientId === undefined || run.client === clientId) &&
    (since === undefined || run.createdAt >= Date.parse(since)) &&
    (until === undefined || run.createdAt < Date.parse(until)) &&
    (q === undefined || matchesAllWords(runSearchTerms(run).split(" "), searchWords(q)));
  const left = [...new Set(ids)].sort((a, b) => (a < b ? 1 : -1)).filter((id) => cursor === null || id < cursor);
  const page = left.slice(0, bulkPageMax);
  const found = await Promise.all(page.map((run) => reader.page({ page: "run", tenant, run, tasksMax: 0 })));
  const items = found.flatMap(({ detail }) => (detail === null || !matchesFilter(detail.run) ? [] : [detail.run]));
  return { items, next: left.length > page.length ? (page.at(-1) ?? null) : null };
}
