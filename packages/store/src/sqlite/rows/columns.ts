// Encodes rows to cells and back, by the field tables of row-shape.ts: phases as small integers, flags as 0 and 1, lists as JSON text.

import type { SQLInputValue } from "node:sqlite";
import { type Row, runOf } from "@astraflow/engine";
import {
  type FieldType,
  fieldsOf,
  mapKinds,
  openPhases,
  type RowKind,
  type RowOfKind,
  rowShapes,
  taskPhases,
} from "../../common/row-shape.ts";
import type { SqliteCells, SqliteConnection } from "../file/connection.ts";
import { type InternedTexts, internedTextSql } from "./interned-texts.ts";
import { withValues } from "./task-values.ts";

interface Column {
  readonly field: string;
  readonly type: FieldType;
  /** Stored as the number of its text. */
  readonly isInterned: boolean;
}

/** Only the writer gives numbers to texts. */
type NumbersOfTexts = Pick<InternedTexts, "numberOf">;

interface TableColumns {
  /** In the order of the table; the first is `id`. */
  readonly columns: readonly Column[];
  readonly names: string;
  /** What to select, in the same order: texts in place of the numbers of words. */
  readonly selected: string;
  readonly insertSql: string;
}

/** Fields whose few texts stand in very many rows. */
const internedFields: Partial<Record<RowKind, readonly string[]>> = { task: ["route", "worker", "boot"] };

function tableColumnsOf(kind: RowKind): TableColumns {
  const isInterned = (field: string) => internedFields[kind]?.includes(field) === true;
  const columns = Object.entries(rowShapes[kind]).map(([field, type]) => ({ field, type, isInterned: isInterned(field) }));
  const selected = columns.map(({ field }) => (isInterned(field) ? internedTextSql(`${kind}."${field}"`) : `"${field}"`));
  const names = columns.map(({ field }) => `"${field}"`).join(", ");
  const insertSql = `INSERT INTO ${kind} (${names}) VALUES (${columns.map(() => "?").join(", ")})`;
  return { columns, names, selected: selected.join(", "), insertSql };
}

export const columnsByKind = mapKinds(tableColumnsOf);

/** A condition for tasks that have not ended. */
export const isOpenSql = `task.phase IN (${openPhases.map((phase) => taskPhases.indexOf(phase)).join(", ")})`;

export function updateSql(kind: RowKind, mask: number): string {
  const { columns } = columnsByKind[kind];
  const sets = columns.filter((_, at) => mask & (1 << at)).map((column) => `"${column.field}" = ?`);
  return `UPDATE ${kind} SET ${sets.join(", ")} WHERE id = ?`;
}

export const allColumnsMask = -1;

/** The cells of the columns that a mask has a bit for. */
export function encodeCells(row: Row, mask: number, internedTexts: NumbersOfTexts): SQLInputValue[] {
  const fields = fieldsOf(row);
  const cells: SQLInputValue[] = [];
  const { columns } = columnsByKind[row.kind];
  for (let at = 0; at < columns.length; at++) {
    const column = columns[at] as Column;
    if (mask & (1 << at)) cells.push(encodeCell(column, fields[column.field], internedTexts));
  }
  return cells;
}

/** The one place that believes the file; large values are references here. Whether the columns fit the row's phase, the engine checks when it loads the row. */
export function decodeRow<K extends RowKind>(kind: K, cells: SqliteCells): RowOfKind<K> {
  const row: Record<string, unknown> = { kind };
  const { columns } = columnsByKind[kind];
  for (let at = 0; at < columns.length; at++) {
    const column = columns[at] as Column;
    row[column.field] = decodeCell(column, cells[at]);
  }
  if (kind === "task") row.run = runOf(String(row.id));
  return row as unknown as RowOfKind<K>;
}

/** The rows that a statement selects, whole. */
export function readRows<K extends RowKind>(
  connection: SqliteConnection,
  kind: K,
  sql: string,
  ...values: SQLInputValue[]
): RowOfKind<K>[] {
  return connection.all(sql, ...values).map((cells) => decodeWhole(connection, kind, cells));
}

export function readRow<K extends RowKind>(
  connection: SqliteConnection,
  kind: K,
  sql: string,
  ...values: SQLInputValue[]
): RowOfKind<K> | null {
  const cells = connection.get(sql, ...values);
  return cells === undefined ? null : decodeWhole(connection, kind, cells);
}

/** A row for a page: with the values that are stored apart. */
function decodeWhole<K extends RowKind>(connection: SqliteConnection, kind: K, cells: SqliteCells): RowOfKind<K> {
  const row: Row = decodeRow<RowKind>(kind, cells);
  return (row.kind === "task" ? withValues(connection, row) : row) as RowOfKind<K>;
}

/** A field that no column can hold: thrown, so that the unit it came in is refused. */
function encodeCell(column: Column, value: unknown, internedTexts: NumbersOfTexts): SQLInputValue {
  const { type } = column;
  if (column.isInterned && value !== null) {
    if (typeof value === "string") return internedTexts.numberOf(value);
  } else if (typeof type === "object") {
    const code = type.indexOf(value as string);
    if (code >= 0) return code;
  } else if (type === "flag") {
    if (typeof value === "boolean") return value ? 1 : 0;
  } else if (type === "list") return JSON.stringify(value);
  // SQLite would take NaN for NULL.
  else if (!Number.isNaN(value)) return value as SQLInputValue;
  throw new TypeError(`field ${column.field} cannot store ${String(value)}`);
}

function decodeCell(column: Column, cell: unknown): unknown {
  const { type } = column;
  if (typeof type === "object") return type[Number(cell)];
  if (type === "flag") return cell === 1;
  if (type === "list") return JSON.parse(String(cell));
  return cell;
}
