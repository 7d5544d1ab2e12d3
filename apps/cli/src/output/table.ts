// Tables and lines that fit the screen, measured in columns of the terminal.

import { stripVTControlCharacters } from "node:util";
import stringWidth from "string-width";
import { stripControlCharacters } from "./terminal.ts";

const segmenter = new Intl.Segmenter();

export type TableCells = readonly (readonly string[])[];

/** Pads columns to their widest cell as it is seen: colours have no width, Hangul and emoji are two columns wide. */
export function formatTable(rows: TableCells): string[] {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, stringWidth(cell))));
  return rows.map((row) =>
    row
      .map((cell, at) => (at === row.length - 1 ? cell : cell + " ".repeat((widths[at] ?? 0) - stringWidth(cell))))
      .join("  ")
      .trimEnd(),
  );
}

/** A table of foreign texts, without colours. */
export const formatTextTable = (rows: TableCells): string[] => formatTable(rows.map((row) => row.map(stripControlCharacters)));

/** How a cell is shortened: an id to its end, an instant to day and minute, a text to its beginning. */
export type CellKind = "id" | "when" | "text";

/** What a list says about one of its columns. */
export interface ColumnLayout {
  readonly kind?: CellKind;
  /** Only in a wide table, or where the screen has room for all of it. */
  readonly isWide?: true;
  /** Never left out: the id, the status, the worker. */
  readonly isKept?: true;
}

const columnGap = 2;
const idCharsMin = 8;
/** Texts are cut first, and not below this width; then other columns, those that are kept last. */
const cellCharsMin = { text: 16, kept: 20, any: 8 } as const;

/**
 * The columns that a screen has room for, by their places: wide ones where nothing has to be cut for them; on a narrow screen the columns
 * that need not be kept are left out, the last one first.
 */
export function chooseColumns(rows: TableCells, columns: readonly ColumnLayout[], width: number): number[] {
  const places = columns.map((_, at) => at);
  let chosen = places.filter((at) => columns[at]?.isWide !== true);
  if (!Number.isFinite(width)) return chosen;
  const isWhole = (some: readonly number[]): boolean => tableWidth(columnWidths(pickColumns(rows, some))) <= width;
  for (const at of places) {
    const more = chosen.includes(at) ? chosen : places.filter((one) => one === at || chosen.includes(one));
    if (isWhole(more)) chosen = more;
  }
  const isFitting = (some: readonly number[]): boolean => {
    const own = some.map((at) => columns[at] ?? {});
    return tableWidth(columnWidths(fitTableToWidth(pickColumns(rows, some), own, width, cellCharsMin.kept))) <= width;
  };
  while (!isFitting(chosen)) {
    const last = chosen.findLast((at) => columns[at]?.isKept !== true);
    if (last === undefined) return chosen;
    chosen = chosen.filter((at) => at !== last);
  }
  return chosen;
}

export const pickColumns = (rows: TableCells, places: readonly number[]): TableCells =>
  rows.map((row) => places.map((at) => row[at] ?? ""));

/** The rows cut to a width: ids to their ends while these are unique, instants to the minute, then texts, then the widest columns. */
export function fitTableToWidth(
  rows: TableCells,
  columns: readonly ColumnLayout[],
  width: number,
  keptCharsMin: number = cellCharsMin.any,
): TableCells {
  const isFitting = (cells: TableCells): boolean => tableWidth(columnWidths(cells)) <= width;
  let cells: TableCells = rows;
  for (const kind of ["id", "when"] as const) {
    if (isFitting(cells)) return cells;
    columns.forEach((column, at) => {
      if (column.kind === kind) cells = kind === "id" ? shortenIds(cells, at) : shortenInstants(cells, at);
    });
  }
  const widths = columnWidths(cells);
  const isPlain = (at: number): boolean => columns[at]?.kind !== "id" && columns[at]?.kind !== "when";
  shrinkColumns(widths, width, cellCharsMin.text, (at) => columns[at]?.kind === "text");
  shrinkColumns(widths, width, cellCharsMin.any, (at) => isPlain(at) && columns[at]?.isKept !== true);
  shrinkColumns(widths, width, keptCharsMin, isPlain);
  return cells.map((row) => row.map((cell, at) => truncate(cell, widths[at] ?? 0)));
}

const columnWidths = (rows: TableCells): number[] =>
  (rows[0] ?? []).map((_, at) => Math.max(...rows.map((cells) => stringWidth(cells[at] ?? ""))));
const tableWidth = (widths: readonly number[]): number =>
  widths.reduce((sum, one) => sum + one, 0) + columnGap * (widths.length - 1);

/** Narrows the widest of some columns by one, again and again, until the table fits or no column may become narrower. */
function shrinkColumns(widths: number[], width: number, minWidth: number, mayShrink: (at: number) => boolean): void {
  for (let over = tableWidth(widths) - width; over > 0; over -= 1) {
    const shrinkable = widths.map((one, at) => (mayShrink(at) && one > minWidth ? one : 0));
    const widest = shrinkable.indexOf(Math.max(...shrinkable));
    if ((shrinkable[widest] ?? 0) === 0) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}

/** `2026-01-31 12:00:00Z` to `01-31 12:00Z`. */
function shortenInstants(rows: TableCells, at: number): TableCells {
  return rows.map((row) => row.with(at, (row[at] ?? "").replace(/^\d{4}-(\d{2}-\d{2} \d{2}:\d{2}):\d{2}Z$/, "$1Z")));
}

function shortenIds(rows: TableCells, at: number): TableCells {
  const ids = [...new Set(rows.slice(1).map((row) => row[at] ?? ""))];
  const longest = Math.max(0, ...ids.map((id) => id.length));
  let length = idCharsMin;
  while (length < longest && new Set(ids.map((id) => id.slice(-length))).size < ids.length) length += 1;
  return rows.map((row, line) => (line === 0 ? row : row.with(at, (row[at] ?? "").slice(-length))));
}

/** Cuts a text to a width; a wide character that does not fit is dropped as a whole. */
export const truncate = (text: string, width: number): string =>
  stringWidth(text) <= width ? text : `${takeSegments(splitSegments(text), width - 1).join("")}…`;

/** Keeps the end of a text, cut to a width. */
export const truncateStart = (text: string, width: number): string =>
  stringWidth(text) <= width
    ? text
    : `…${takeSegments(splitSegments(text).reverse(), width - 1)
        .reverse()
        .join("")}`;

const splitSegments = (text: string): string[] => Array.from(segmenter.segment(text), ({ segment }) => segment);

/** The first segments that fit into a width. */
function takeSegments(segments: readonly string[], width: number): string[] {
  let used = 0;
  const end = segments.findIndex((segment) => {
    used += stringWidth(segment);
    return used > width;
  });
  return segments.slice(0, end < 0 ? undefined : end);
}

/** A line longer than the screen would wrap and break the display; a line that is cut loses its colours. */
export const truncateLine = (line: string, columns: number): string =>
  stringWidth(line) < columns ? line : truncate(stripVTControlCharacters(line), Math.max(1, columns - 1));
