// The routes about runs: started, listed, looked at, cancelled. Each reads the words, asks the engine or the reader, and says the answer.
// Parts of a run (nodes, logs, bindings) are in run-detail-routes.ts, steering in run-control-routes.ts.

import type { PageOf, RunDetail, RunPhase, RunRow, StoreReader, TaskRow } from "@astraflow/engine";
import { runKey } from "@astraflow/engine";
import { Fault, fault, limits, type RunStatus, readRunStartRequest } from "@astraflow/protocol";
import {
  decodeIdCursor,
  definitionDigestOf,
  encodeIdCursor,
  type NodeViewContext,
  presentDefinition,
  presentNodes,
  presentRun,
  presentRunEvent,
  presentRunRef,
} from "@astraflow/services";
import { idempotencyKeyOf, replayedHeader } from "../requests/idempotency.ts";
import {
  type RestReply,
  type RouteHandler,
  readIdempotencyKey,
  readJsonBody,
  readPageLimit,
  readWholeNumber,
} from "../requests/rest-call.ts";
import { type ArtifactPage, artifactStatusesAt, artifactsOf, readArtifactStatuses, readArtifacts } from "./run-artifacts.ts";
import type { RunHistory } from "./run-history.ts";
import { createRunStarter, type RunStarterOptions, runNotFound } from "./run-starter.ts";
import { findWorkerIds } from "./worker-matching.ts";

export interface RunRoutesOptions extends RunStarterOptions {
  readonly ackDeadlineMs: number;
  /** Of all routes together: what one has read the other goes on from. */
  readonly moments: RunHistory;
}

/** Nodes that one answer shows; more are read page by page. */
const runNodesMax = 1_000;
/** Artifacts of nodes beyond those; still more are read page by page. */
const runArtifactsMax = 10_000;
const noMoreArtifacts: ArtifactPage = { items: [], next: null };

/** Tasks whose states are filled into a definition: all of its own nodes, unless iterations stand between them in great number. */
const definitionTasksMax = 20_000;

type RunRoutes = "startRun" | "listRuns" | "getRun" | "getRunDefinition" | "cancelRun" | "listRunEvents";

/** A run of the caller's tenant with its first tasks. */
export async function findRun(
  reader: StoreReader,
  tenant: string,
  run: string,
  tasksMax: number = runNodesMax,
): Promise<{ detail: RunDetail; head: number }> {
  const { detail, head } = await reader.page({ page: "run", tenant, run, tasksMax });
  if (detail === null) throw runNotFound(run);
  return { detail, head };
}

/** Worker names are rows of their own; they are read only when a node has one. */
export async function readNodeContext(reader: StoreReader, detail: RunDetail, ackDeadlineMs: number): Promise<NodeViewContext> {
  if (!detail.tasks.some((task) => task.worker !== null)) return { workers: new Map(), ackDeadlineMs };
  const { items } = await reader.page({ page: "workers", tenant: detail.run.tenant });
  return { workers: new Map(items.map((worker) => [worker.id, worker.name])), ackDeadlineMs };
}

export function runHandlers(options: RunRoutesOptions): Record<RunRoutes, RouteHandler> {
  const { engineClient, reader, environment, ackDeadlineMs, moments } = options;
  const starter = createRunStarter(options);

  return {
    async startRun(call) {
      const key = readIdempotencyKey(call);
      const request = readRunStartRequest(readJsonBody(call));
      if (request instanceof Fault) throw request;
      const order = await starter.readOrder(call, request, key);
      if (request.dryRun === true) return { status: 200, body: await starter.planRun(call, order) };
      const answer = await starter.start(call, order);
      return { body: presentRunRef(answer), headers: answer.repeated ? { "idempotent-replayed": "true" } : {} };
    },

    async listRuns(call) {
      const { tenant } = call.identity;
      const limit = readPageLimit(call.query);
      const { clientId: client, workflowId: source, q: search } = call.query;
      const before = decodeIdCursor("runs", call.query["cursor"]);
      const since = readTime(call.query["since"], "since");
      const until = readTime(call.query["until"], "until");
      const { worker } = call.query;
      const workers = worker === undefined ? undefined : await findWorkerIds(reader, tenant, worker);
      const pages = await Promise.all(
        phasesOf(call.query["status"]).map((phase) =>
          reader.page({
            page: "runs",
            tenant,
            limit,
            ...(before !== undefined && { before }),
            ...(phase !== null && { phase }),
            ...(client !== undefined && { client }),
            ...(workers !== undefined && { workers }),
            ...(source !== undefined && { source }),
            ...(since !== undefined && { since }),
            ...(until !== undefined && { until }),
            ...(search !== undefined && search.trim() !== "" && { search }),
          }),
        ),
      );
      const { items, next, head } = mergePages(pages, limit);
      return { body: { items: items.map(presentRun), nextCursor: encodeIdCursor("runs", next), asOf: head } };
    },

    async getRun(call) {
      const { tenant } = call.identity;
      const runId = call.params["runId"] ?? "";
      const at = readWholeNumber(call.query, "at", undefined);
      if (at !== undefined) return showRunAt(reader, moments, ackDeadlineMs, { tenant, runId, at });
      const { detail, head } = await findRun(reader, tenant, runId);
      const cutAfter = detail.tasks.length >= runNodesMax ? (detail.tasks.at(-1)?.id ?? null) : null;
      const contextOf = async (tasks: readonly TaskRow[]) => ({
        ...(await readNodeContext(reader, { ...detail, tasks }, ackDeadlineMs)),
        fateOf: await readArtifactStatuses(reader, tenant, tasks, environment.clock.now()),
      });
      const nodes = presentNodes(detail, await contextOf(detail.tasks), cutAfter);
      const beyond = { after: cutAfter ?? undefined, limit: runArtifactsMax, isAll: true };
      const rest = cutAfter === null ? noMoreArtifacts : await readArtifacts(reader, detail, contextOf, beyond);
      const artifacts = [...nodes.flatMap(artifactsOf), ...rest.items];
      return {
        body: {
          ...presentRun(detail.run),
          ...(artifacts.length > 0 && { artifacts }),
          ...(rest.next !== null && { artifactsNextCursor: rest.next }),
          nodes,
          ...(cutAfter !== null && { nodesNextCursor: cutAfter }),
          asOf: head,
        },
      };
    },

    async getRunDefinition(call) {
      const { detail, head } = await findRun(reader, call.identity.tenant, call.params["runId"] ?? "", definitionTasksMax);
      const etag = `W/"sha256:${definitionDigestOf(detail.run.workflow)}"`;
      // The definition never changes; its states do, as long as the run is not over.
      if (detail.run.endedAt !== null && call.header("if-none-match") === etag)
        return { status: 304, body: "", headers: { etag } };
      const shown = presentDefinition(detail, await readNodeContext(reader, detail, ackDeadlineMs));
      return { body: { ...shown, asOf: head }, headers: { etag } };
    },

    async cancelRun(call) {
      const { tenant, user } = call.identity;
      const run = call.params["runId"] ?? "";
      const idempotencyKey = idempotencyKeyOf(call, "run.cancel", null, options.digest);
      const answer = await engineClient
        .request({
          type: "run.cancel",
          tenant,
          by: user,
          corr: call.requestId,
          run,
          reason: "cancelled by request",
          ask: idempotencyKey,
        })
        .catch((why: unknown) => {
          throw why instanceof Fault && why.code === "E.NOT_FOUND" ? runNotFound(run) : why;
        });
      if (answer.of !== "run") throw fault("E.INTERNAL", `run.cancel was answered with ${answer.of}`);
      return { body: presentRunRef(answer), headers: replayedHeader(answer.repeated) };
    },

    async listRunEvents(call) {
      const { tenant } = call.identity;
      const run = call.params["runId"] ?? "";
      const after = readEventCursor(call.query["cursor"]);
      const page = await reader.events({ tenant, after: after ?? 0, subject: runKey(run), limit: readPageLimit(call.query) });
      // Facts prove that the run exists and is the caller's; only without any does it have to be asked.
      if (page.items.length === 0) await findRun(reader, tenant, run);
      if (after !== null && after < page.floor)
        throw fault("E.CURSOR.EXPIRED", "the facts after this cursor are no longer kept; read the run and go on from its asOf", {
          floor: page.floor,
          head: page.head,
        });
      return {
        body: { items: page.items.map((entry) => presentRunEvent(entry, run)), nextCursor: String(page.next), asOf: page.head },
      };
    },
  };
}

/** The run as it was, with its first nodes and what those had left by then. */
async function showRunAt(
  reader: StoreReader,
  moments: RunHistory,
  ackDeadlineMs: number,
  { tenant, runId, at }: { readonly tenant: string; readonly runId: string; readonly at: number },
): Promise<RestReply> {
  const historical = await moments.readRunAt(tenant, runId, at);
  const tasks = await moments.readTaskRows(historical, historical.ids.slice(0, runNodesMax));
  const cutAfter = historical.ids.length > runNodesMax ? (tasks.at(-1)?.id ?? null) : null;
  const { run, workflow } = historical;
  const context = await readNodeContext(reader, { run, workflow, tasks }, ackDeadlineMs);
  const nodes = presentNodes({ run, workflow, tasks }, { ...context, fateOf: artifactStatusesAt(historical.fold) }, cutAfter);
  const artifacts = nodes.flatMap(artifactsOf);
  return {
    body: {
      ...presentRun(run),
      ...(artifacts.length > 0 && { artifacts }),
      nodes,
      ...(cutAfter !== null && { nodesNextCursor: cutAfter }),
      at,
      asOf: at,
    },
  };
}

/** An instant of the query, in ms. */
function readTime(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  const at = /^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].{1,40})?$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(at)) return at;
  throw fault("E.REQUEST.INVALID", `query.${name} must be a date or an instant such as 2026-01-31T12:00:00Z`, {
    path: `query.${name}`,
  });
}

const runStatuses: readonly RunStatus[] = ["queued", "running", "succeeded", "failed", "cancelled"];

/** A run that is ending is shown as running, so asking for the running ones asks for both. */
function phasesOf(status: string | undefined): readonly (RunPhase | null)[] {
  if (status === undefined) return [null];
  const asked = [...new Set(status.split(","))];
  if (!asked.every((one) => (runStatuses as readonly string[]).includes(one)))
    throw fault("E.REQUEST.INVALID", `query.status must be one or more of ${runStatuses.join(", ")}, with commas between them`, {
      path: "query.status",
    });
  return asked.flatMap((one): RunPhase[] => (one === "running" ? ["running", "ending"] : [one as RunPhase]));
}

type RunsPage = PageOf<{ page: "runs"; tenant: string; limit: number }>;

/**
 * Ids are time-ordered, so the newest first is the largest first. A page may end early with more to come: older runs of the others are left
 * for the page after, else those in between would never be shown. The page is true at the oldest of the heads.
 */
function mergePages(pages: readonly RunsPage[], limit: number): { items: readonly RunRow[]; next: string | null; head: number } {
  const [only] = pages;
  if (only !== undefined && pages.length === 1) return only;
  const head = Math.min(...pages.map((page) => page.head));
  const [reached = null] = pages.flatMap((page) => page.next ?? []).sort((a, b) => (a < b ? 1 : -1));
  const all = pages
    .flatMap((page) => page.items)
    .filter((run) => reached === null || run.id >= reached)
    .sort((a, b) => (a.id < b.id ? 1 : -1));
  if (all.length <= limit) return { items: all, next: reached, head };
  const items = all.slice(0, limit);
  return { items, next: items.at(-1)?.id ?? null, head };
}

function readEventCursor(cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  const position = /^[0-9]{1,16}$/.test(cursor) && cursor.length <= limits.idCharsMax ? Number(cursor) : Number.NaN;
  if (Number.isSafeInteger(position)) return position;
  throw fault("E.REQUEST.INVALID", "query.cursor must be the nextCursor of a page before", { path: "query.cursor" });
}
