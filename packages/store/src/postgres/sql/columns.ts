// Rows and the columns of their tables, by the field tables of row-shape.ts: types, what is selected, what has changed, and
// which rows no column can hold. Statements are elsewhere, and so is how an answer becomes a row again.

import type { Row } from "@astraflow/engine";
import { type FieldType, fieldsOf, type RowKind, rowProblem, rowShapes } from "../../common/row-shape.ts";
import { isStorable } from "./literals.ts";

/** In the order in which their tables are written. */
export const rowKinds = ["run", "task", "worker", "key", "route", "workflow", "ask", "doc"] as const satisfies readonly RowKind[];
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
const derivedColumns: Readonly<Partial<Record<RowKind, Column>>> = {
  run: { field: "terms", type: "text", isDerived: true },
  doc: { field: "words", type: "text", isDerived: true },
};

const columnsByKind = Object.fromEntries(
  rowKinds.map((kind): [RowKind, Column[]] => [
    kind,
    [
      ...Object.entries(rowShapes[kind]).map(([field, type]) => ({ field, type })),
      ...(derivedColumns[kind] === undefined ? [] : [derivedColumns[kind]]),
    ],
  ]),
) as unknown as Record<RowKind, readonly Column[]>;

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

const isOptional = ({ type }: Column) => type === "text?" || type === "number?";

/** The columns of a table as `CREATE TABLE` wants them, but for those (`kind.field`) that come later. */
export function tableColumns(kind: RowKind, later: ReadonlySet<string>): string {
  return columnsByKind[kind]
    .filter(({ field }) => !later.has(`${kind}.${field}`))
    .map(
      (column) =>
        `"${column.field}" ${sqlType(column)}${column.field === "id" ? " PRIMARY KEY" : isOptional(column) ? "" : " NOT NULL"}`,
    )
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
export function rowArraySql(kind: RowKind, alias: string): string {
  return `json_build_array(${columnsByKind[kind]
    .flatMap(({ field, isDerived }) => (isDerived ? [] : [`${alias}."${field}"`]))
    .join(", ")})`;
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
    // Most fields are plain texts and numbers; only what does not look like one is asked about again, with words for it.
    if (
      typeof value === "string"
        ? !isValidText(column, value)
        : typeof value === "number"
          ? !isValidNumber(column, value)
          : !isValidFlagOrList(column, value)
    )
      return rowProblem(row) ?? `${row.kind}/${row.id.slice(0, 40)} has a value for ${column.field} that cannot be stored`;
  }
  return null;
}

function isValidText({ field, type }: Column, value: string): boolean {
  if (typeof type === "object") return type.includes(value);
  if (type !== "text" && type !== "text?") return false;
  return value.length <= nameBytesMax / 3 || !indexedFields.has(field) || Buffer.byteLength(value) <= nameBytesMax;
}

function isValidNumber({ field, type }: Column, value: number): boolean {
  return (
    (type === "number" || type === "number?") &&
    (Number.isSafeInteger(value) || (fractionalFields.has(field) && Number.isFinite(value)))
  );
}

function isValidFlagOrList({ type }: Column, value: unknown): boolean {
  if (value === null) return type === "text?" || type === "number?";
  if (type === "flag") return typeof value === "boolean";
  return type === "list" && Array.isArray(value) && value.every((one) => typeof one === "string");
}

/** The first text in a row that PostgreSQL cannot store: one with a NUL, or with half of a surrogate pair. */
export function unstorableTextProblem(row: Row): string | null {
  for (const [field, value] of Object.entries(row))
    for (const text of Array.isArray(value) ? value : [value])
      if (typeof text === "string" && !isStorable(text))
        return `${row.kind}/${JSON.stringify(row.id)} has a ${field} that contains a NUL or half of a surrogate pair`;
  return null;
}
