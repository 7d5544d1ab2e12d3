// Large parameters and results of tasks, in rows of their own. A task's row is read, cached and rewritten with every move of the task; with
// megabytes in it, each of these would cost megabytes. The row then holds a short reference, and the text is read where somebody looks at it.

import type { TaskId, TaskRow } from "@astraflow/engine";
import type { SqliteConnection } from "../file/connection.ts";

/** Values longer than this are stored apart. */
export const inlineValueCharsMax = 64 * 1024;

const valueFields = ["params", "result"] as const;
type ValueField = (typeof valueFields)[number];

/** No JSON text begins with it. A text that does all the same is stored apart, however short it is. */
const referenceMark = "@";
const markCode = referenceMark.charCodeAt(0);

const selectValueSql = "SELECT body FROM task_value WHERE task = ? AND field = ?";
const upsertValueSql =
  "INSERT INTO task_value (task, field, body) VALUES (?, ?, ?) ON CONFLICT (task, field) DO UPDATE SET body = excluded.body";
const deleteValueSql = "DELETE FROM task_value WHERE task = ? AND field = ?";

/** Tasks whose large values are read on demand, with the rows as the table has them. */
const storedRows = new WeakMap<TaskRow, TaskRow>();

const isReference = (cell: string | null): boolean => cell !== null && cell.charCodeAt(0) === markCode;
const isApart = (text: string | null): text is string =>
  text !== null && (text.length > inlineValueCharsMax || text.charCodeAt(0) === markCode);

/** Whether values of a row of the table are stored apart. */
export const hasLargeValues = (stored: TaskRow): boolean => isReference(stored.params) || isReference(stored.result);

/** A row of the table as a turn sees it: a value that is stored apart is read when it is first looked at, and kept with this object alone. */
export function withLazyValues(connection: SqliteConnection, stored: TaskRow): TaskRow {
  if (!hasLargeValues(stored)) return stored;
  const task = { ...stored };
  for (const field of valueFields) if (isReference(stored[field])) defineLazyValue(connection, task, field);
  storedRows.set(task, stored);
  return task;
}

function defineLazyValue(connection: SqliteConnection, task: TaskRow, field: ValueField): void {
  const attributes = { enumerable: true, configurable: true };
  Object.defineProperty(task, field, {
    ...attributes,
    get() {
      const value = readValue(connection, task.id, field);
      Object.defineProperty(task, field, { ...attributes, value });
      return value;
    },
  });
}

/** The same with all its texts, for a page, which is one snapshot. `withoutParams`: with its result alone. */
export function withValues(connection: SqliteConnection, row: TaskRow, withoutParams = false): TaskRow {
  const stored = withoutParams ? ({ ...row, params: null } as TaskRow) : row;
  if (!hasLargeValues(stored)) return stored;
  const read = (field: ValueField): string | null =>
    isReference(stored[field]) ? readValue(connection, stored.id, field) : stored[field];
  return { ...stored, params: read("params"), result: read("result") } as TaskRow;
}

function readValue(connection: SqliteConnection, task: TaskId, field: ValueField): string {
  const cells = connection.get(selectValueSql, task, field);
  if (cells === undefined) throw new Error(`task ${task} refers to a ${field} value that is not stored`);
  return String(cells[0]);
}

/** The row as the table has it. */
export const storedRowOf = (task: TaskRow): TaskRow => storedRows.get(task) ?? task;

/**
 * Writes the large values of a task that have changed, and removes those that are no longer large. Returns the row for the table. Runs inside
 * the open transaction. A task that is deleted loses its values by a trigger, whichever statement deletes it.
 */
export function writeLargeValues(connection: SqliteConnection, before: TaskRow | null, after: TaskRow): TaskRow {
  const wasStored = before === null ? undefined : storedRows.get(before);
  if (wasStored === undefined && !isApart(after.params) && !isApart(after.result)) return after;
  const cells: Partial<Record<ValueField, string>> = {};
  for (const field of valueFields) {
    const text = after[field];
    const wasApart = wasStored !== undefined && isReference(wasStored[field]);
    if (isApart(text)) {
      if (!wasApart || before?.[field] !== text) connection.write(upsertValueSql, after.id, field, text);
      cells[field] = `${referenceMark}${text.length}`;
    } else if (wasApart) connection.write(deleteValueSql, after.id, field);
  }
  return { ...after, ...cells } as TaskRow;
}
