// The runs of a bulk change: which ones, page by page, and what is done to one of them.

import { matchesAllWords, type PageQuery, type RunRow, runSearchTerms, type StoreReader, searchWords } from "@astraflow/engine";
import { type BulkFilter, type BulkRequest, Fault, omitUndefined } from "@astraflow/protocol";
import { NeedsOwnThread } from "../environment/in-place-limits.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf } from "../identity/identity.ts";
import type { ApplyBulkChange } from "./bulk-changes.ts";
import type { DeadLetters } from "./dead-letters.ts";
import type { RunControl } from "./run-control.ts";
import type { RunStarter } from "./run-starter.ts";

/** Whether a run needs the change, as far as its state tells. It does not tell of dead letters. */
export function needsChange({ action, from, version = "same" }: BulkRequest, { phase, endedAt }: RunRow): boolean {
  if (action === "dismiss") return true;
  if (action === "cancel") return endedAt === null;
  const hasUnfinishedWork = phase === "failed" || phase === "cancelled";
  const isAsked = action === "replay" && (from !== undefined || version !== "same");
  return endedAt !== null && (hasUnfinishedWork || isAsked);
}

/** Every change is idempotent: a cancelled run stays cancelled, a retry has its key, a dismissed dead letter stays dismissed. */
export const createBulkRunChange =
  (
    { engineClient, digest }: Pick<ServiceContext, "engineClient" | "digest">,
    { starter, control, deadLetters }: { starter: RunStarter; control: RunControl; deadLetters: DeadLetters },
  ): ApplyBulkChange =>
  async (caller, request, run, changeId) => {
    const { action, reason, from, version } = request;
    if (!needsChange(request, run)) return { isChanged: false };
    if (action === "dismiss") return { isChanged: (await deadLetters.dismissAllOf(caller, run.id, reason)) > 0 };
    if (action === "cancel") {
      const command = { type: "run.cancel", ...actorOf(caller), run: run.id, reason: reason ?? "cancelled with others" } as const;
      return { isChanged: await engineClient.request(command).then(() => true, ignoreEndedRun) };
    }
    const detail = await starter.readRunDetail(caller.identity.tenant, run.id);
    const how = omitUndefined({ from, version });
    const data = { reason, ...how, bulk: changeId.slice(0, changeId.lastIndexOf(":")) };
    const options = { key: `bulk ${digest(changeId)}`, reason };
    const answer = await (action === "retry"
      ? control.retry(caller, detail, options, data)
      : control.replay(caller, detail, { ...options, request: how }, data));
    return { isChanged: true, newRun: answer.run };
  };

/** Changes a run here, and elsewhere if it turns out to be too large for this thread. */
export const moveLargeRuns =
  (here: ApplyBulkChange, elsewhere: ApplyBulkChange): ApplyBulkChange =>
  async (...change) => {
    try {
      return await here(...change);
    } catch (why) {
      if (!(why instanceof NeedsOwnThread)) throw why;
      return elsewhere(...change);
    }
  };

/** A run that has ended since it was read needs no cancel. */
function ignoreEndedRun(why: unknown): false {
  if (why instanceof Fault && why.code === "E.RUN.TERMINAL") return false;
  throw why;
}

export const bulkPageMax = 50;

/** Newest first, so that runs which the work itself starts are never met. */
export async function readMatchingRuns(reader: StoreReader, tenant: string, { filter }: BulkRequest, cursor: string | null) {
  const { status, workflowId, clientId, since, until, q, runIds } = filter;
  if (runIds !== undefined) return readNamedRuns(reader, tenant, filter, cursor);
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
async function readNamedRuns(reader: StoreReader, tenant: string, filter: BulkFilter, cursor: string | null) {
  const { status, workflowId, clientId, since, until, q, runIds = [] } = filter;
  const matchesFilter = (run: RunRow): boolean =>
    hasStatus(run, status) &&
    (workflowId === undefined || run.source === workflowId) &&
    (clientId === undefined || run.client === clientId) &&
    (since === undefined || run.createdAt >= Date.parse(since)) &&
    (until === undefined || run.createdAt < Date.parse(until)) &&
    (q === undefined || matchesAllWords(runSearchTerms(run).split(" "), searchWords(q)));
  const left = [...new Set(runIds)].sort((a, b) => (a < b ? 1 : -1)).filter((id) => cursor === null || id < cursor);
  const page = left.slice(0, bulkPageMax);
  const found = await Promise.all(page.map((run) => reader.page({ page: "run", tenant, run, tasksMax: 0 })));
  const items = found.flatMap(({ detail }) => (detail === null || !matchesFilter(detail.run) ? [] : [detail.run]));
  return { items, next: left.length > page.length ? (page.at(-1) ?? null) : null };
}
