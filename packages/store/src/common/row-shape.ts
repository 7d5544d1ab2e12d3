// The fields of every kind of row and what may stand in them, as data. The memory store checks rows by it; the sqlite store takes
// its columns from it. What the fields mean is said in the engine's rows.

import type { ChunkRow, Row } from "@astraflow/engine";

/** `?` allows null. `list` is an array of texts. */
export type FieldType = "text" | "text?" | "number" | "number?" | "flag" | "list" | readonly string[];

export const runPhases = ["queued", "running", "ending", "succeeded", "failed", "cancelled"] as const;
/** Files hold the places of these words: what comes later is appended. */
export const taskPhases = [
  "waiting",
  "parked",
  "ready",
  "leased",
  "succeeded",
  "failed",
  "cancelled",
  "skipped",
  "hosting",
] as const;
/** Of tasks that have not ended. */
export const openPhases = [
  "waiting",
  "parked",
  "ready",
  "leased",
  "hosting",
] as const satisfies readonly (typeof taskPhases)[number][];
export const workerPhases = ["online", "away", "lost", "enrolled"] as const;

/** In the order of the tables' columns; `id` comes first in each. A task's run is read from its id and has no column. */
export const rowShapes = {
  run: {
    id: "text",
    tenant: "text",
    phase: runPhases,
    workflow: "text",
    client: "text",
    band: "number",
    open: "number",
    verdict: "text?",
    cursor: "text?",
    createdAt: "number",
    startedAt: "number?",
    endedAt: "number?",
    due: "number?",
    error: "text?",
    label: "text",
    source: "text",
    about: "text",
    marks: "text?",
    bindings: "text?",
  },
  task: {
    id: "text",
    phase: taskPhases,
    route: "text",
    pin: "text?",
    line: "text?",
    band: "number",
    rank: "number?",
    needs: "number",
    fence: "number",
    attempt: "number",
    deliveries: "number",
    failures: "number",
    worker: "text?",
    boot: "text?",
    epoch: "number",
    acked: "flag",
    key: "text?",
    due: "number?",
    readyAt: "number?",
    grantedAt: "number?",
    endedAt: "number?",
    params: "text?",
    result: "text?",
    error: "text?",
    state: "text?",
  },
  worker: {
    id: "text",
    tenant: "text",
    name: "text",
    phase: workerPhases,
    boot: "text",
    epoch: "number",
    replica: "text",
    replicaEpoch: "number",
    draining: "flag",
    joinedAt: "number",
    seenAt: "number",
    due: "number?",
    about: "text",
    condition: "text",
  },
  key: { id: "text", limit: "number", holders: "list", due: "number?" },
  route: { id: "text", tenant: "text", needs: "text" },
  workflow: { id: "text", body: "text" },
  ask: { id: "text", digest: "text", run: "text", at: "number" },
  doc: {
    id: "text",
    tenant: "text",
    collection: "text",
    rev: "number",
    at: "number",
    due: "number?",
    sort: "text",
    terms: "text",
    body: "text",
  },
} as const satisfies Record<Row["kind"], Record<string, FieldType>>;

export type RowKind = Row["kind"];
export type RowOfKind<K extends RowKind> = Extract<Row, { kind: K }>;

/** Kinds of rows that have a deadline. */
export const dueKinds = ["doc", "key", "run", "task", "worker"] as const satisfies readonly RowKind[];

/** A row as a table of its fields. */
export const fieldsOf = (row: Row): Readonly<Record<string, unknown>> => row as unknown as Readonly<Record<string, unknown>>;

/** A bit for each column in which two images of a row differ. Fields are compared as they are; only lists need a closer look. */
export function changedColumnsMask(
  columns: readonly { readonly field: string; readonly type: FieldType }[],
  before: Row,
  after: Row,
): number {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  let mask = 0;
  for (let at = 0; at < columns.length; at++) {
    const { field, type } = columns[at] as (typeof columns)[number];
    const value = now[field];
    if (old[field] !== value && (type !== "list" || JSON.stringify(old[field]) !== JSON.stringify(value))) mask |= 1 << at;
  }
  return mask;
}

/** What a task printed; the first three name it. */
const chunkShape = {
  task: "text",
  fence: "number",
  first: "number",
  count: "number",
  at: "number",
  line: "number",
  lines: "number",
  body: "text",
} as const satisfies Record<keyof ChunkRow, FieldType>;

export type ChunkField = keyof typeof chunkShape;
export const chunkFields = Object.keys(chunkShape) as readonly ChunkField[];

/** Why these chunks cannot be stored, or null. All their numbers count something. */
export function chunkProblem(chunk: ChunkRow): string | null {
  for (const field of chunkFields) {
    const value = chunk[field];
    const isFine = chunkShape[field] === "text" ? typeof value === "string" : Number.isSafeInteger(value) && Number(value) >= 0;
    if (!isFine) return `chunks of task ${String(chunk.task)} have ${field} ${String(value).slice(0, 40)}`;
  }
  return null;
}

/** Why this row cannot be stored, or null. */
export function rowProblem(row: Row): string | null {
  const shape: Record<string, FieldType> | undefined = rowShapes[row.kind];
  if (shape === undefined) return `there are no rows of kind ${String(row.kind)}`;
  const fields = fieldsOf(row);
  for (const name in shape) {
    const type = shape[name] as FieldType;
    if (!matchesFieldType(type, fields[name])) return `${row.kind}/${row.id} has ${name} ${String(fields[name])}`;
  }
  return null;
}

function matchesFieldType(type: FieldType, value: unknown): boolean {
  switch (type) {
    case "text":
      return typeof value === "string";
    case "text?":
      return value === null || typeof value === "string";
    case "number":
      return Number.isFinite(value);
    case "number?":
      return value === null || Number.isFinite(value);
    case "flag":
      return typeof value === "boolean";
    case "list":
      return Array.isArray(value) && value.every((one) => typeof one === "string");
    default:
      return typeof value === "string" && type.includes(value);
  }
}
