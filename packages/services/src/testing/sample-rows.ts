// Sample rows and a reader that returns them, filtered by tenant as in the real stores.

import type { ChunkRow, LoggedFact, PageQuery, RowColumns, RunRow, StoreReader, TaskRow, WorkerRow } from "@astraflow/engine";
import { sampleRun, sampleTask, sampleWorker } from "@astraflow/engine/testing";
import type { Workflow } from "@astraflow/protocol";

export const nodeIds = [
  "11111111-1111-4111-8111-111111111111",
  "22222222-2222-4222-8222-222222222222",
  "33333333-3333-4333-8333-333333333333",
];

/** A chain of three nodes. */
export const sampleChain: Workflow = {
  id: "99999999-9999-4999-8999-999999999999",
  schemaVersion: "2025-10",
  metadata: { name: "chain" },
  nodes: nodeIds.map((id, ordinal) => ({
    id,
    type: "demo.noop",
    package: { name: "demo", version: "1.0.0" },
    label: `step ${ordinal}`,
    position: { x: ordinal * 100, y: 0 },
  })),
  edges: [0, 1].map((n) => ({
    id: `e${n}`,
    source: { node: nodeIds[n] ?? "", port: "out" },
    target: { node: nodeIds[n + 1] ?? "", port: "in" },
  })),
};

export function runRow(id: string, more: Partial<RowColumns<RunRow>> = {}): RunRow {
  return sampleRun(id, {
    tenant: "default",
    phase: "running",
    workflow: "default/abc",
    client: "c1",
    startedAt: 2_000,
    label: "a workflow",
    source: "00000000-0000-4000-8000-000000000099",
    ...more,
  });
}

export function taskRow(id: string, more: Partial<RowColumns<TaskRow>> = {}): TaskRow {
  return sampleTask(id, { phase: "ready", route: "route", readyAt: 2_000, ...more });
}

export function workerRow(instance: string, more: Partial<RowColumns<WorkerRow>> = {}): WorkerRow {
  const tenant = more.tenant ?? "default";
  return sampleWorker(`${tenant}/${instance}`, {
    name: `name of ${instance}`,
    epoch: 1,
    replica: "here",
    joinedAt: 1_000,
    about: JSON.stringify({
      slots: 4,
      packages: [{ name: "demo", version: "1.0.0", status: "installed" }],
      runtimes: ["node"],
      features: ["fence"],
      payloadTypes: [],
      pool: "default",
      tags: { zone: "a" },
      hostname: "box",
      version: "1.0.0",
      dialect: "v2",
    }),
    ...more,
  });
}

export interface SampleRows {
  readonly runs: readonly RunRow[];
  readonly tasks: readonly TaskRow[];
  readonly workers: readonly WorkerRow[];
  readonly log: readonly (LoggedFact & { readonly tenant: string })[];
  readonly chunks?: readonly ChunkRow[];
  readonly floor?: number;
}

export function createFakeReader(rows: SampleRows): StoreReader & { readonly queries: PageQuery[] } {
  const queries: PageQuery[] = [];
  const head = rows.log.length;
  return {
    queries,
    async events({ tenant, after, subject, limit }) {
      const items = rows.log
        .filter(
          (entry) => entry.tenant === tenant && entry.position > after && (subject === undefined || entry.subject === subject),
        )
        .slice(0, limit)
        .map(({ tenant: _tenant, ...entry }) => entry);
      return { items, next: items.at(-1)?.position ?? after, head, floor: rows.floor ?? 0 };
    },
    async page(query) {
      queries.push(query);
      return answerQuery(rows, query, head) as never;
    },
    close: async () => undefined,
  };
}

function answerQuery(rows: SampleRows, query: PageQuery, head: number): object {
  switch (query.page) {
    case "runs": {
      const all = rows.runs
        .filter((run) => run.tenant === query.tenant && (query.phase === undefined || run.phase === query.phase))
        .filter(
          (run) =>
            (query.client === undefined || run.client === query.client) && (query.before === undefined || run.id < query.before),
        )
        .sort((a, b) => (a.id < b.id ? 1 : -1));
      const items = all.slice(0, query.limit);
      return { items, next: all.length > query.limit ? (items.at(-1)?.id ?? null) : null, head };
    }
    case "run": {
      const run = rows.runs.find((one) => one.id === query.run && one.tenant === query.tenant);
      const tasks = rows.tasks.filter((task) => task.run === query.run);
      return { detail: run === undefined ? null : { run, tasks, workflow: JSON.stringify(sampleChain) }, head };
    }
    case "worker": {
      const worker = rows.workers.find((one) => one.id === query.worker && one.tenant === query.tenant) ?? null;
      const held = rows.tasks.filter((task) => task.phase === "leased" && worker !== null && task.worker === worker.id);
      return { worker, held: held.slice(0, query.limit), head };
    }
    case "crew":
      return { items: rows.workers.map(({ tenant, phase, draining }) => ({ tenant, phase, draining, workers: 1 })) };
    case "depth": {
      const tenantOf = (task: TaskRow) => rows.runs.find((run) => run.id === task.run)?.tenant ?? "";
      const phases = ["waiting", "parked", "ready", "leased"] as const;
      const tenants = [...new Set(rows.runs.map((run) => run.tenant))].filter((one) => (query.tenant ?? one) === one);
      const items = tenants.flatMap((tenant) =>
        phases.map((phase) => {
          const tasks = rows.tasks.filter((task) => task.phase === phase && tenantOf(task) === tenant);
          return { tenant, phase, tasks: tasks.length };
        }),
      );
      return { items: items.filter(({ tasks }) => tasks > 0) };
    }
    case "workers":
      return { items: rows.workers.filter((worker) => worker.tenant === query.tenant), head };
    case "task": {
      const task = rows.tasks.find((one) => one.id === query.task) ?? null;
      const run = rows.runs.find((one) => query.task.startsWith(`${one.id}.`) && one.tenant === query.tenant) ?? null;
      return { run, task: run === null ? null : task, head };
    }
    case "tasks": {
      const all = rows.tasks
        .filter((task) => task.run === query.run && task.id > (query.after ?? ""))
        .sort((a, b) => (a.id < b.id ? -1 : 1));
      const items = all.slice(0, query.limit);
      return { items, next: all.length > query.limit ? (items.at(-1)?.id ?? null) : null, head };
    }
    case "chunks":
      return { items: (rows.chunks ?? []).filter((row) => row.task === query.task).slice(0, query.limit), head };
    case "doc":
      return { items: query.names.map(() => null), head };
    default:
      return { items: [], next: null, head };
  }
}
