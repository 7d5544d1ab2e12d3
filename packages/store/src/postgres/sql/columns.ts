// Columns of the tables, by the field tables of row-shape.ts: types, which rows they cannot hold, and rows from the cells of an answer.

import { type Row, type RunRow, runOf, type TaskRow } from "@astraflow/engine";
import {
  type FieldType,
  fieldsOf,
  mapKinds,
  matchesFieldType,
  type RowKind,
  type RowOfKind,
  rowProblem,
  rowShapes,
} from "../../common/row-shape.ts";
import { isStorable } from "./literals.ts";

/** Kinds that are locked by their own row. A task is locked by its run, and so are some documents; routes and workflows never change. */
export const rootKinds = ["run", "worker", "key", "ask", "doc"] as const satisfies readonly RowKind[];
export const sharedKinds = ["route", "workflow"] as const satisfies readonly RowKind[];

export interface Column {
  readonly field: string;
  readonly type: FieldType;
  /** Made of other fields when the row is written, for an index; no part of the row. */
  readonly isDerived?: true;
}

/** The words runs and documents are found by. They follow fields that are in none of the usual changes, so they are written with those. */
const derivedColumns: Readonly<Partial<Record<RowKind, readonly Column[]>>> = {
  run: [{ field: "terms", type: "text", isDerived: true }],
  doc: [{ field: "words", type: "text", isDerived: true }],
};

const columnsByKind = mapKinds((kind): readonly Column[] => [
  ...Object.entries(rowShapes[kind]).map(([field, type]) => ({ field, type })),
  ...(derivedColumns[kind] ?? []),
]);

/** Ranks are sums of costs; every other number counts something, or is an instant in milliseconds. */
const fractionalFields: ReadonlySet<string> = new Set(["rank"]);

/** Fields that are in an index, which holds no long texts: two of them must fit into a third of a page. */
const indexedFields: ReadonlySet<string> = new Set(["id", "tenant", "line", "worker", "source", "collection", "sort"]);
const nameBytesMax = 1_200;

/** Byte order, whatever the database was made with: lines, lists and pages are read in it. */
const textType = `text COLLATE "C"`;

function sqlType({ field, type }: Column): string {
  if (type === "flag") return "boolean";
  if (type === "list") return "text[]";
  if (type === "number" || type === "number?") return fractionalFields.has(field) ? "double precision" : "bigint";
  return textType;
}

function constraintSql({ field, type }: Column): string {
  if (field === "id") return " PRIMARY KEY";
  return type === "text?" || type === "number?" ? "" : " NOT NULL";
}

/** The columns of a table as `CREATE TABLE` wants them, but for those (`kind.field`) that come later. */
export function tableColumns(kind: RowKind, later: ReadonlySet<string>): string {
  return columnsByKind[kind]
    .filter(({ field }) => !later.has(`${kind}.${field}`))
    .map((column) => `"${column.field}" ${sqlType(column)}${constraintSql(column)}`)
    .join(", ");
}

export const columnsOf = (kind: RowKind): readonly Column[] => columnsByKind[kind];

/** Whether its cell travels as a number; flags do, as 0 and 1. */
export const isNumeric = ({ type }: Column): boolean => type === "number" || type === "number?" || type === "flag";

/** A cell that came as a text or a double precision, as the column's own type. */
export function castCellSql({ type }: Column, cell: string): string {
  if (type === "flag") return `${cell} = 1`;
  return type === "list" ? `${cell}::text[]` : cell;
}

export function columnNames(kind: RowKind): readonly string[] {
  return columnsByKind[kind].map((column) => `"${column.field}"`);
}

/** One row as a JSON array: shorter than an object, and the client knows the names. */
export function rowArraySql(kind: RowKind, alias: string, leftOut?: string): string {
  const cells = Object.keys(rowShapes[kind]).map((field) => (field === leftOut ? "NULL" : `${alias}."${field}"`));
  return `json_build_array(${cells.join(", ")})`;
}

export const allColumnsMask = -1;

/** Why no table takes these columns of a row, or null. Said before anything is sent, so that the unit can be named. */
export function columnProblem(row: Row, mask: number): string | null {
  const columns = columnsByKind[row.kind];
  if (columns === undefined) return rowProblem(row);
  const fields = fieldsOf(row);
  for (let at = 0; at < columns.length; at++) {
    if ((mask & (1 << at)) === 0) continue;
    const column = columns[at] as Column;
    if (column.isDerived) continue;
    const value = fields[column.field];
    if (!matchesFieldType(column.type, value) || exceedsColumn(column.field, value))
      return rowProblem(row) ?? `${row.kind}/${row.id.slice(0, 40)} has a value for ${column.field} that cannot be stored`;
  }
  return null;
}

/** Indexes hold no long texts, and most columns no fractions. */
function exceedsColumn(field: string, value: unknown): boolean {
  if (typeof value === "number") return !Number.isSafeInteger(value) && !fractionalFields.has(field);
  if (typeof value !== "string" || value.length <= nameBytesMax / 3) return false;
  return indexedFields.has(field) && Buffer.byteLength(value) > nameBytesMax;
}

/** The first text in a row that PostgreSQL cannot store: one with a NUL, or with half of a surrogate pair. */
export function unstorableTextProblem(row: Row): string | null {
  for (const [field, value] of Object.entries(row))
    for (const text of Array.isArray(value) ? value : [value])
      if (typeof text === "string" && !isStorable(text))
        return `${row.kind}/${JSON.stringify(row.id)} has a ${field} that contains a NUL or half of a surrogate pair`;
  return null;
}

export type ResultCells = readonly unknown[];

/** What `json_agg` found: null where that was nothing. */
export const listOf = <T>(cell: unknown): readonly T[] => (cell ?? []) as readonly T[];

/** The one place that believes the database: whether the columns fit the row's phase, the engine checks when it loads the row. */
export function decodeRow<K extends RowKind>(kind: K, cells: ResultCells): RowOfKind<K> {
  const columns = kind === "task" ? taskColumns(cells) : kind === "run" ? runColumns(cells) : columnsOfKind(kind, cells);
  return columns as unknown as RowOfKind<K>;
}

function columnsOfKind(kind: RowKind, cells: ResultCells): Record<string, unknown> {
  const row: Record<string, unknown> = { kind };
  for (const [at, { field, isDerived }] of columnsOf(kind).entries()) if (!isDerived) row[field] = cells[at];
  return row;
}

/**
 * Tasks and runs come by the hundred and are copied with every move. A literal makes objects that are quick to make and to copy; with
 * their fields added in a loop, copying a task was the dearest step of its end.
 */
function taskColumns(cells: ResultCells): Record<keyof TaskRow, unknown> {
  const id = cells[0] as string;
  return {
    kind: "task",
    id,
    run: runOf(id),
    phase: cells[1],
    route: cells[2],
    pin: cells[3],
    line: cells[4],
    band: cells[5],
    rank: cells[6],
    needs: cells[7],
    fence: cells[8],
    attempt: cells[9],
    deliveries: cells[10],
    failures: cells[11],
    worker: cells[12],
    boot: cells[13],
    epoch: cells[14],
    acked: cells[15],
    key: cells[16],
    due: cells[17],
    readyAt: cells[18],
    grantedAt: cells[19],
    endedAt: cells[20],
    params: cells[21],
    result: cells[22],
    error: cells[23],
    state: cells[24],
  };
}

function runColumns(cells: ResultCells): Record<keyof RunRow, unknown> {
  return {
    kind: "run",
    id: cells[0],
    tenant: cells[1],
    phase: cells[2],
    workflow: cells[3],
    client: cells[4],
    band: cells[5],
    open: cells[6],
    verdict: cells[7],
    cursor: cells[8],
    createdAt: cells[9],
    startedAt: cells[10],
    endedAt: cells[11],
    due: cells[12],
    error: cells[13],
    label: cells[14],
    source: cells[15],
    about: cells[16],
    marks: cells[17],
    bindings: cells[18],
  };
}
