// Finding workers: by instance id or name, their names by id, and how many could take a node now.

import { firstFailedRule, requirementsOf, type StoreReader, toCandidate, type WorkerId, type WorkerRow } from "@astraflow/engine";
import type { PlanNode } from "@astraflow/graph";
import { type Fault, fault, type WorkerDiagnostics } from "@astraflow/protocol";
import { presentDiagnostics } from "../presentation/worker-view.ts";
import { type WorkerServices, workerViewContext } from "./worker-services.ts";

/** The same message for every id that is not the caller's: it must not show whether it is someone else's. */
export const workerNotFound = (instance: string): Fault => fault("E.NOT_FOUND", `there is no worker ${instance.slice(0, 100)}`);

/** A worker by its instance id or its name, with at most `limit` of the tasks it holds. Of several of one name, one that is online. */
export async function findWorker(reader: StoreReader, tenant: string, idOrName: string, limit: number) {
  const exact = await reader.page({ page: "worker", tenant, worker: `${tenant}/${idOrName}`, limit });
  if (exact.worker !== null) return { ...exact, worker: exact.worker };
  const { items } = await reader.page({ page: "workers", tenant });
  const named = preferOnline(items.filter(({ name }) => name === idOrName));
  const found = named === undefined ? null : await reader.page({ page: "worker", tenant, worker: named.id, limit });
  if (found === null || found.worker === null) throw workerNotFound(idOrName);
  return { ...found, worker: found.worker };
}

export const preferOnline = (workers: readonly WorkerRow[]): WorkerRow | undefined =>
  workers.find(({ phase }) => phase === "online") ?? workers[0];

/** Names of the tenant's workers by their id. */
export async function readWorkerNames(reader: StoreReader, tenant: string): Promise<ReadonlyMap<string, string>> {
  const { items } = await reader.page({ page: "workers", tenant });
  return new Map(items.map(({ id, name }) => [id, name]));
}

/** How many workers of the tenant could take a node now. */
export async function fittingWorkerCounter(reader: StoreReader, tenant: string): Promise<(node: PlanNode) => number> {
  const { items } = await reader.page({ page: "workers", tenant });
  const candidates = items.map((row) => toCandidate(row, {}));
  return (node) => {
    const needs = requirementsOf(tenant, node);
    return candidates.filter((one) => firstFailedRule(needs, one, null).code === "fits").length;
  };
}

/** Workers with the same name that are considered when runs are searched by worker. */
const sameNameMax = 100;

/** The worker with this instance id, though it may be unknown by now, and all that have it as their name. */
export async function findWorkerIds(reader: StoreReader, tenant: string, idOrName: string): Promise<WorkerId[]> {
  const { items } = await reader.page({ page: "workers", tenant });
  const named = items.filter(({ name }) => name === idOrName).slice(0, sameNameMax);
  return [...new Set([`${tenant}/${idOrName}`, ...named.map(({ id }) => id)])];
}

const diagnosticsLimits = {
  /** Attempts listed in one answer. */
  attemptsMax: 200,
  /** Runs read for the names of their nodes: each may be large. */
  runsMax: 8,
} as const;

/** Everything known about one worker. */
export async function readDiagnostics(workers: WorkerServices, tenant: string, idOrName: string): Promise<WorkerDiagnostics> {
  const { reader } = workers;
  const { attemptsMax, runsMax } = diagnosticsLimits;
  const { worker, held, head } = await findWorker(reader, tenant, idOrName, attemptsMax + 1);
  const shown = held.slice(0, attemptsMax);
  const runIds = [...new Set(shown.map((task) => task.run))].slice(0, runsMax);
  const pages = await Promise.all(runIds.map((run) => reader.page({ page: "run", tenant, run })));
  const runs = new Map(pages.flatMap(({ detail }) => (detail === null ? [] : [[detail.run.id, detail] as const])));
  const parts = { worker, held: shown, hasMoreAttempts: held.length > attemptsMax, runs, head };
  return presentDiagnostics(parts, workerViewContext(workers));
}
