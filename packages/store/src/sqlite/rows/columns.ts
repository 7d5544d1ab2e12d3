// Encodes rows to cells and back, by the field tables of row-shape.ts: phases as small integers, flags as 0 and 1, lists as JSON text.

import type { SQLInputValue } from "node:sqlite";
import type { Row } from "@astraflow/engine";
import { runOf } from "@astraflow/engine";
import {
  type FieldType,
  fieldsOf,
  openPhases,
  type RowKind,
  type RowOfKind,
  rowShapes,
  taskPhases,
} from "../../common/row-shape.ts";
import type { SqliteCells } from "../file/connection.ts";
import { internedTextSql } from "./interned-texts.ts";

interface Column {
  readonly field: string;
  readonly type: FieldType;
  /** Stored as the number of its text. */
  readonly isInterned: boolean;
}

export interface TableColumns {
  readonly kind: RowKind;
  /** In the order of the table; the first is `id`. */
  readonly columns: readonly Column[];
  readonly names: string;
  /** What to select, in the same order: texts in place of the numbers of words. */
  readonly selected: string;
}

/** Fields whose few texts stand in very many rows. */
const internedFields: Partial<Record<RowKind, readonly string[]>> = { task: ["route", "worker", "boot"] };

/** Gives the number of a text; only the writer needs it. */
export interface InternedNumbers {
  numberOf(text: string): number;
}

function tableColumnsOf(kind: RowKind): TableColumns {
  const isInterned = (field: string) => internedFields[kind]?.includes(field) === true;
  const columns = Object.entries(rowShapes[kind]).map(([field, type]) => ({ field, type, isInterned: isInterned(field) }));
  const selected = columns.map(({ field }) => (isInterned(field) ? internedTextSql(`${kind}."${field}"`) : `"${field}"`));
  return { kind, columns, names: columns.map(({ field }) => `"${field}"`).join(", "), selected: selected.join(", ") };
}

export const columnsByKind: Readonly<Record<RowKind, TableColumns>> = {
  run: tableColumnsOf("run"),
  task: tableColumnsOf("task"),
  worker: tableColumnsOf("worker"),
  key: tableColumnsOf("key"),
  route: tableColumnsOf("route"),
  workflow: tableColumnsOf("workflow"),
  ask: tableColumnsOf("ask"),
  doc: tableColumnsOf("doc"),
};

/** A condition for tasks that have not ended. */
export const isOpenSql = `task.phase IN (${openPhases.map((phase) => taskPhases.indexOf(phase)).join(", ")})`;

export function encodeRow(row: Row, internedTexts: InternedNumbers): SQLInputValue[] {
  const fields = fieldsOf(row);
  const { columns } = columnsByKind[row.kind];
  const cells: SQLInputValue[] = [];
  for (const column of columns) cells.push(encodeCell(column, fields[column.field], internedTexts));
  return cells;
}

export function updateSql(kind: RowKind, mask: number): string {
  const { columns } = columnsByKind[kind];
  const sets = columns.filter((_, at) => mask & (1 << at)).map((column) => `"${column.field}" = ?`);
  return `UPDATE ${kind} SET ${sets.join(", ")} WHERE id = ?`;
}

export function encodeChangedCells(row: Row, mask: number, internedTexts: InternedNumbers): SQLInputValue[] {
  const fields = fieldsOf(row);
  const cells: SQLInputValue[] = [];
  const { columns } = columnsByKind[row.kind];
  for (let at = 1; at < columns.length; at++) {
    const column = columns[at] as Column;
    if (mask & (1 << at)) cells.push(encodeCell(column, fields[column.field], internedTexts));
  }
  cells.push(row.id);
  return cells;
}

export function insertSql(kind: RowKind): string {
  const { columns, names } = columnsByKind[kind];
  return `INSERT INTO ${kind} (${names}) VALUES (${columns.map(() => "?").join(", ")})`;
}

/** The one place that believes the file: whether the columns fit the row's phase, the engine checks when it loads the row. */
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

/** A field that no column can hold: thrown, so that the unit it came in is refused. */
function encodeCell(column: Column, value: unknown, internedTexts: InternedNumbers): SQLInputValue {
  const { type } = column;
  if (column.isInterned && value !== null) {
    if (typeof value !== "string") throw new TypeError(`field ${column.field} cannot store ${String(value)}`);
    return internedTexts.numberOf(value);
  }
  if (typeof type === "object") {
    const code = type.indexOf(value as string);
    if (code < 0) throw new TypeError(`field ${column.field} cannot store ${String(value)}`);
    return code;
  }
  if (type === "flag") {
    if (typeof value !== "boolean") throw new TypeError(`field ${column.field} cannot store ${String(value)}`);
    return value ? 1 : 0;
  }
  if (type === "list") return JSON.stringify(value);
  // SQLite would take NaN for NULL.
  if (typeof value === "number" && Number.isNaN(value)) throw new TypeError(`field ${column.field} cannot store NaN`);
  return value as SQLInputValue;
}

function decodeCell(column: Column, cell: unknown): unknown {
  const { type } = column;
  if (typeof type === "object") return type[Number(cell)];
  if (type === "flag") return cell === 1;
  if (type === "list") return JSON.parse(String(cell));
  return cell;
}
