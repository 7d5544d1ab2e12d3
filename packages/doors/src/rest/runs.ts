// The routes about runs. Each reads the words, asks the engine or the reader, and says the answer.

import type { PageOf, Reader, RunDetail, RunPhase, RunRow } from "@astraflow/engine";
import { runKey } from "@astraflow/engine";
import { canonicalText, type Problem } from "@astraflow/graph";
import { Fault, fault, limits, type RunStatus, readRunStartRequest } from "@astraflow/protocol";
import type { Link } from "../link.ts";
import { type Handler, readBody, readIdempotencyKey, readLimit } from "./call.ts";
import { createDefinitions } from "./definitions.ts";
import { digestIn, type NodeContext, viewDefinition, viewEvent, viewNodes, viewRun, viewRunRef } from "./view.ts";

export interface RunsOptions {
  readonly link: Link;
  readonly reader: Reader;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
  readonly ackDeadlineMs: number;
}

const priorityDefault = 5;
/** Problems of a workflow that one answer names; more are counted. */
const problemsMax = 100;

type RunRoutes = "startRun" | "listRuns" | "getRun" | "getRunDefinition" | "cancelRun" | "listRunEvents";

export function runHandlers(options: RunsOptions): Record<RunRoutes, Handler> {
  const { link, reader, digest } = options;
  const define = createDefinitions(digest);

  const detailOf = async (tenant: string, run: string): Promise<{ detail: RunDetail; head: number }> => {
    const { detail, head } = await reader.page({ page: "run", tenant, run });
    if (detail === null) throw missingRun(run);
    return { detail, head };
  };

  /** Worker names are rows of their own; they are read only when a node has one. */
  const contextOf = async (detail: RunDetail): Promise<NodeContext> => {
    const { ackDeadlineMs } = options;
    if (!detail.tasks.some((task) => task.worker !== null)) return { workers: new Map(), ackDeadlineMs };
    const { items } = await reader.page({ page: "workers", tenant: detail.run.tenant });
    return { workers: new Map(items.map((worker) => [worker.id, worker.name])), ackDeadlineMs };
  };

  return {
    async startRun(call) {
      const key = readIdempotencyKey(call);
      const request = readRunStartRequest(readBody(call));
      if (request instanceof Fault) throw request;
      const { workflow, clientId, priority = priorityDefault, timeoutMs = null } = request;
      const { problems, body, digest: workflowDigest } = define(workflow);
      refuseProblems(problems);
      const { tenant, user } = call.identity;
      const answer = await link.ask({
        type: "run.start",
        tenant,
        by: user,
        digest: workflowDigest,
        body,
        client: clientId,
        priority,
        timeoutMs,
        ask:
          key === null
            ? null
            : { key, digest: digest(canonicalText({ workflow: workflowDigest, clientId, priority, timeoutMs })) },
      });
      if (answer.of !== "run") throw fault("E.INTERNAL", `run.start was answered with ${answer.of}`);
      return { body: viewRunRef(answer), headers: answer.repeated ? { "idempotent-replayed": "true" } : {} };
    },

    async listRuns(call) {
      const { tenant } = call.identity;
      const limit = readLimit(call.query);
      const { cursor: before, clientId: client } = call.query;
      const pages = await Promise.all(
        phasesOf(call.query["status"]).map((phase) =>
          reader.page({
            page: "runs",
            tenant,
            limit,
            ...(before !== undefined && { before }),
            ...(phase !== null && { phase }),
            ...(client !== undefined && { client }),
          }),
        ),
      );
      const { items, next, head } = mergePages(pages, limit);
      return { body: { items: items.map(viewRun), nextCursor: next, asOf: head } };
    },

    async getRun(call) {
      const { detail, head } = await detailOf(call.identity.tenant, call.params["runId"] ?? "");
      return { body: { ...viewRun(detail.run), nodes: viewNodes(detail, await contextOf(detail)), asOf: head } };
    },

    async getRunDefinition(call) {
      const { detail } = await detailOf(call.identity.tenant, call.params["runId"] ?? "");
      const body = viewDefinition(detail, await contextOf(detail));
      return { body, headers: { etag: `W/"sha256:${digestIn(detail.run.workflow)}"` } };
    },

    async cancelRun(call) {
      readIdempotencyKey(call);
      const { tenant, user } = call.identity;
      const run = call.params["runId"] ?? "";
      const answer = await link
        .ask({ type: "run.cancel", tenant, by: user, run, reason: "cancelled by request" })
        .catch((why: unknown) => {
          throw why instanceof Fault && why.code === "E.NOT_FOUND" ? missingRun(run) : why;
        });
      if (answer.of !== "run") throw fault("E.INTERNAL", `run.cancel was answered with ${answer.of}`);
      return { body: viewRunRef(answer) };
    },

    async listRunEvents(call) {
      const { tenant } = call.identity;
      const run = call.params["runId"] ?? "";
      const after = readCursor(call.query["cursor"]);
      const page = await reader.events({ tenant, after: after ?? 0, subject: runKey(run), limit: readLimit(call.query) });
      // Facts prove that the run exists and is the caller's; only without any does it have to be asked.
      if (page.items.length === 0) await detailOf(tenant, run);
      if (after !== null && after < page.floor)
        throw fault("E.CURSOR.EXPIRED", "the facts after this cursor are no longer kept; read the run and go on from its asOf", {
          floor: page.floor,
          head: page.head,
        });
      return {
        body: { items: page.items.map((entry) => viewEvent(entry, run)), nextCursor: String(page.next), asOf: page.head },
      };
    },
  };
}

/** One sentence for every id that is not the caller's: it must not show whether it is someone else's. */
const missingRun = (run: string): Fault => fault("E.NOT_FOUND", `there is no run ${run.slice(0, 100)}`);

function refuseProblems(problems: readonly Problem[]): void {
  const [first] = problems;
  if (first === undefined) return;
  const code = problems.find((problem) => problem.code === "E.WORKFLOW.INVALID")?.code ?? first.code;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  throw fault(code, `${first.message}${more}`, { problems: problems.slice(0, problemsMax), total: problems.length });
}

const statuses: readonly RunStatus[] = ["queued", "running", "succeeded", "failed", "cancelled"];

/** A run that is ending is shown as running, so asking for the running ones asks for both. */
function phasesOf(status: string | undefined): readonly (RunPhase | null)[] {
  if (status === undefined) return [null];
  if (!(statuses as readonly string[]).includes(status))
    throw fault("E.REQUEST.INVALID", `query.status must be one of ${statuses.join(", ")}`, { path: "query.status" });
  return status === "running" ? ["running", "ending"] : [status as RunPhase];
}

type RunsPage = PageOf<{ page: "runs"; tenant: string; limit: number }>;

/** Ids are time-ordered, so the newest first is the largest first. The page is true at the older of the two heads. */
function mergePages(pages: readonly RunsPage[], limit: number): { items: readonly RunRow[]; next: string | null; head: number } {
  const [only] = pages;
  if (only !== undefined && pages.length === 1) return only;
  const all = pages.flatMap((page) => page.items).sort((a, b) => (a.id < b.id ? 1 : -1));
  const items = all.slice(0, limit);
  const hasMore = all.length > limit || pages.some((page) => page.next !== null);
  return { items, next: hasMore ? (items.at(-1)?.id ?? null) : null, head: Math.min(...pages.map((page) => page.head)) };
}

function readCursor(cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  const position = /^[0-9]{1,16}$/.test(cursor) && cursor.length <= limits.idCharsMax ? Number(cursor) : Number.NaN;
  if (Number.isSafeInteger(position)) return position;
  throw fault("E.REQUEST.INVALID", "query.cursor must be the nextCursor of a page before", { path: "query.cursor" });
}
