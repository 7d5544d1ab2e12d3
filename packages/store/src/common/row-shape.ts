// The fields of every kind of row and what may stand in them, as data: stores check rows by it and take their columns from it.

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
/** Of tasks and runs; what has ended never changes again. */
const endedPhases: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled", "skipped"]);
export const openPhases = taskPhases.filter((phase) => !endedPhases.has(phase));
export const workerPhases = ["online", "away", "lost", "enrolled", "left"] as const;

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
export type RowOfKind<K extends RowKind> = Extract<Row, { readonly kind: K }>;
export const rowKinds = Object.keys(rowShapes) as readonly RowKind[];

/** A table with an entry for each kind of row. */
export function mapKinds<T>(make: (kind: RowKind) => T): Readonly<Record<RowKind, T>> {
  return Object.fromEntries(rowKinds.map((kind) => [kind, make(kind)])) as Record<RowKind, T>;
}

/** Kinds of rows that have a deadline. */
export const dueKinds = ["doc", "key", "run", "task", "worker"] as const satisfies readonly RowKind[];

export const hasEnded = (row: Row): boolean => (row.kind === "run" || row.kind === "task") && endedPhases.has(row.phase);

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

export const chunkFields = Object.keys(chunkShape) as readonly (keyof ChunkRow)[];

/** The cells come in the order of `chunkFields`. */
export function decodeChunk(cells: readonly unknown[]): ChunkRow {
  return Object.fromEntries(chunkFields.map((field, at) => [field, cells[at]])) as unknown as ChunkRow;
}

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

/** Asked by the type of the value first: most are plain texts and numbers. */
export function matchesFieldType(type: FieldType, value: unknown): boolean {
  if (typeof value === "string") return type === "text" || type === "text?" || (typeof type === "object" && type.includes(value));
  if (typeof value === "number") return (type === "number" || type === "number?") && Number.isFinite(value);
  if (value === null) return type === "text?" || type === "number?";
  if (type === "flag") return typeof value === "boolean";
  return type === "list" && Array.isArray(value) && value.every((one) => typeof one === "string");
}
