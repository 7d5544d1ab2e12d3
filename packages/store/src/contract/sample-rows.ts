// Rows for the contract: complete, plain, and each field different from its neighbour so that a swapped column is seen.

import type {
  ChangeSet,
  ChunkRow,
  ConcurrencyKeyRow,
  DocRow,
  IdempotencyRow,
  RouteRow,
  Row,
  RowKey,
  WorkerRow,
  WorkflowRow,
} from "@astraflow/engine";
import { docId, keyOf, rootOf } from "@astraflow/engine";
import { sampleRun as runRow, sampleTask as taskRow } from "@astraflow/engine/testing";

export { runRow, taskRow };

export function workerRow(id: string, over: Partial<WorkerRow> = {}): WorkerRow {
  return {
    kind: "worker",
    id,
    tenant: id.slice(0, id.indexOf("/")),
    name: `name of ${id}`,
    phase: "online",
    boot: "boot-1",
    epoch: 7,
    replica: "a",
    replicaEpoch: 1,
    draining: false,
    joinedAt: 2_000,
    seenAt: 3_000,
    due: null,
    about: '{"slots":4}',
    condition: "{}",
    ...over,
  };
}

export function keyRow(id: string, over: Partial<ConcurrencyKeyRow> = {}): ConcurrencyKeyRow {
  return { kind: "key", id, limit: 2, holders: [], due: null, ...over };
}

export function docRow(collection: string, name: string, over: Partial<DocRow> = {}): DocRow {
  const tenant = over.tenant ?? "acme";
  return {
    kind: "doc",
    id: docId(tenant, collection, name),
    tenant,
    collection,
    rev: 1,
    at: 6_000,
    due: null,
    sort: name,
    terms: "",
    body: "{}",
    ...over,
  };
}

export function chunkRow(task: string, fence: number, first: number, over: Partial<ChunkRow> = {}): ChunkRow {
  return { task, fence, first, count: 2, at: 7_000, line: first, lines: 2, body: `["${first}"]`, ...over };
}

/** One of every kind, twice: with every optional field empty, and with every field filled. */
export function sampleRowsOfAllKinds(): Row[] {
  const route: RouteRow = { kind: "route", id: "route-1", tenant: "acme", needs: '{"caps":["gpu"]}' };
  const workflow: WorkflowRow = { kind: "workflow", id: "acme/w1", body: '{"nodes":[]}' };
  const ask: IdempotencyRow = { kind: "ask", id: "acme/key-1", digest: "d1", run: "r1", at: 4_000 };
  return [
    runRow("r1"),
    runRow("r2", {
      phase: "ending",
      workflow: "acme/w2",
      client: "Δ client 'quoted' \u{1f600}",
      band: 1,
      open: 12,
      verdict: "cancelled",
      cursor: "r2.3",
      createdAt: 1_700_000_000_001,
      startedAt: 1_700_000_000_002,
      endedAt: 1_700_000_000_003,
      due: 1_700_000_000_004,
      error: '{"code":"E.X","message":"é"}',
      label: "Nightly report",
      source: "wf-7",
      about: '{"by":"ann","labels":{"team":"blue"}}',
      marks: '{"skip":["n1"]}',
      bindings: '{"pkg":{"worker":"acme/w8","at":5}}',
    }),
    taskRow("r1.0"),
    taskRow("r2.10", {
      phase: "leased",
      route: "route-2",
      pin: "acme/w9",
      band: 2,
      rank: 1.5,
      needs: 3,
      fence: 1_700_000_000_005,
      attempt: 4,
      deliveries: 5,
      failures: 6,
      worker: "acme/w8",
      boot: "boot-8",
      epoch: 8,
      acked: true,
      key: "acme/k1",
      due: 1_700_000_000_006,
      readyAt: 1_700_000_000_007,
      grantedAt: 1_700_000_000_008,
      endedAt: 1_700_000_000_009,
      params: '{"text":"line\\nbreak"}',
      result: "[]",
      error: "null",
      state: '{"progress":0.5}',
    }),
    taskRow("r2.11*2/7~1", { phase: "hosting", state: "{}" }),
    workerRow("acme/w1"),
    workerRow("acme/w2", {
      phase: "lost",
      draining: true,
      due: 1_700_000_000_010,
      condition: '{"healthy":false,"strain":"memory","vitals":{"text":"ü \\"quoted\\" \\u0000"}}',
    }),
    workerRow("acme/w3", { phase: "enrolled" }),
    keyRow("acme/k1"),
    keyRow("acme/k2", { limit: 1, holders: ["r2.10", "r1.0"], due: 5 }),
    route,
    workflow,
    ask,
    docRow("workflow", "w1"),
    docRow("version", "w1/3", {
      rev: 1_700_000_000_011,
      at: 1_700_000_000_012,
      due: 1_700_000_000_013,
      sort: "0003 'Δ'",
      terms: "nightly report",
      body: '{"text":"ü \\u0000"}',
    }),
    docRow("letter", "r2.11*2/7", { due: 1_700_000_000_014, sort: "", terms: "e x" }),
  ];
}

/** A unit whose roots are those of what it writes. */
export function changeSet(part: Partial<ChangeSet>): ChangeSet {
  const roots = new Set<RowKey>([...(part.puts ?? []).map((row) => rootOf(keyOf(row))), ...(part.deletes ?? []).map(rootOf)]);
  return { roots: [...roots], puts: [], deletes: [], enqueued: [], logEntries: [], mail: [], ...part };
}

/** A run with one task that enters a line. */
export function readyChangeSet(
  run: string,
  line: string,
  over: { tenant?: string; band?: number; cost?: number; slot?: string } = {},
): ChangeSet {
  const { tenant = "acme", band = 5, cost = 1, slot = "0" } = over;
  const task = `${run}.${slot}`;
  return changeSet({
    puts: [runRow(run, { tenant, phase: "running" }), taskRow(task, { phase: "ready", line, band, readyAt: 1 })],
    enqueued: [{ task, tenant, cost }],
  });
}

/** Facts of one subject, numbered so that a reader can tell them apart. */
export function logEntry(tenant: string, subject: RowKey, types: readonly string[]): ChangeSet["logEntries"][number] {
  return { tenant, subject, facts: types.map((type, index) => ({ type, data: { index } })) };
}
