// Where words and data go: stdout carries data, stderr carries words and progress. A terminal gets colour and a picture redrawn in
// place; a pipe gets plain lines.

import pc from "picocolors";

export interface OutputStream {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

export interface Terminal {
  /** Data: one line. */
  print(line: string): void;
  /** Words for a person: one line on stderr, unless --quiet. */
  info(line: string): void;
  /** Always on stderr. */
  error(text: string): void;
  /** A picture that replaces the one before; in a pipe nothing is drawn. */
  draw(lines: readonly string[]): void;
  /** Leaves the last picture standing; what follows goes below it. */
  finishDrawing(): void;
  readonly isInteractive: boolean;
  /** Of what data is printed to: endless in a pipe, where nothing is cut. */
  readonly stdoutColumns: number;
  readonly stderrColumns: number;
  readonly stderrRows: number;
  readonly colors: Colors;
}

export type Colors = Pick<
  ReturnType<typeof pc.createColors>,
  "bold" | "dim" | "green" | "red" | "yellow" | "blue" | "cyan" | "magenta"
>;

/** Reports every key that is pressed until the returned function is called. */
export type ListenForKeys = (onKey: (key: string) => void) => () => void;

export interface TerminalOptions {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly isQuiet: boolean;
  readonly wantsColor: boolean;
}

export function createTerminal({ stdout, stderr, env, isQuiet, wantsColor }: TerminalOptions): Terminal {
  const isLive = stderr.isTTY === true && env["TERM"] !== "dumb" && !isQuiet;
  const hasColor = wantsColor && env["NO_COLOR"] === undefined && stdout.isTTY === true && env["TERM"] !== "dumb";
  let drawn: readonly string[] = [];
  // Up over the old picture and to its left edge (keys that were typed have moved the cursor), each line cleared before it is written
  // again, the rest below cleared. Words above it may wrap, so everything is cleared before them.
  const redraw = (lines: readonly string[], above = ""): void => {
    const up = drawn.length > 0 ? `\r\u001b[${drawn.length}A` : "";
    const aboveText = above === "" ? "" : `\u001b[0J${above}\n`;
    stderr.write(`${up}${aboveText}${lines.map((line) => `\u001b[2K${line}\n`).join("")}\u001b[0J`);
    drawn = lines;
  };
  return {
    isInteractive: isLive,
    get stdoutColumns() {
      return stdout.isTTY === true ? (stdout.columns ?? 100) : Number.POSITIVE_INFINITY;
    },
    // Asked each time: windows change their size.
    get stderrColumns() {
      return stderr.columns ?? 100;
    },
    get stderrRows() {
      return stderr.rows ?? 40;
    },
    colors: pc.createColors(hasColor),
    print: (line) => void stdout.write(`${line}\n`),
    info(line) {
      if (isQuiet) return;
      // Words that come while a picture stands go above it; in its place they would be drawn over.
      if (drawn.length > 0) redraw(drawn, line);
      else stderr.write(`${line}\n`);
    },
    error(text) {
      if (drawn.length > 0) redraw(drawn, text.replace(/\n$/, ""));
      else stderr.write(text);
    },
    draw(lines) {
      if (isLive) redraw(lines);
    },
    finishDrawing() {
      // A typed ^C stands where the next words go.
      if (drawn.length > 0) stderr.write("\r\u001b[0J");
      drawn = [];
    },
  };
}

/** Columns padded to their widest cell; in a pipe the same, so that it stays readable and cuttable by spaces. */
export function formatTable(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, displayWidth(cell))));
  return rows.map((row) =>
    row
      .map((cell, at) => (at === row.length - 1 ? cell : cell + " ".repeat((widths[at] ?? 0) - displayWidth(cell))))
      .join("  ")
      .trimEnd(),
  );
}

/** How a cell gives way: an id to its end, an instant to day and minute, a text to its beginning. */
export type CellKind = "id" | "when" | "text";

const columnGap = 2;
const idCharsMin = 8;
/** A text is cut first, and not below this; then whatever is widest. */
const cellCharsMin = { text: 16, any: 8 } as const;

type TableCells = readonly (readonly string[])[];

/** The same rows cut to a width: ids to their ends while these are unique, instants to the minute, then texts, then the widest cells. */
export function fitTableToWidth(rows: TableCells, columns: readonly { readonly kind?: CellKind }[], width: number): TableCells {
  const isFitting = (cells: TableCells): boolean => tableWidth(columnWidths(cells)) <= width;
  let cells: TableCells = rows;
  for (const kind of ["id", "when"] as const) {
    if (isFitting(cells)) return cells;
    columns.forEach((column, at) => {
      if (column.kind === kind) cells = kind === "id" ? shortenIds(cells, at) : shortenInstants(cells, at);
    });
  }
  const widths = columnWidths(cells);
  const isText = (at: number): boolean => columns[at]?.kind === "text";
  const isFree = (at: number): boolean => columns[at]?.kind !== "id" && columns[at]?.kind !== "when";
  shrinkColumns(widths, width, { may: isText, least: cellCharsMin.text });
  shrinkColumns(widths, width, { may: isFree, least: cellCharsMin.any });
  return cells.map((row) => row.map((cell, at) => truncate(cell, widths[at] ?? 0)));
}

const columnWidths = (rows: TableCells): number[] =>
  (rows[0] ?? []).map((_, at) => Math.max(...rows.map((cells) => displayWidth(cells[at] ?? ""))));
const tableWidth = (widths: readonly number[]): number =>
  widths.reduce((sum, one) => sum + one, 0) + columnGap * (widths.length - 1);

/** Takes a character from the widest of some columns, again and again, until it fits or none may give more. */
function shrinkColumns(
  widths: number[],
  width: number,
  { may: mayShrink, least: minWidth }: { may: (at: number) => boolean; least: number },
): void {
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

const truncate = (text: string, length: number): string =>
  [...text].length <= length ? text : `${[...text].slice(0, length - 1).join("")}…`;

/** A line longer than the screen would wrap and break a picture; colours are dropped from what is cut. */
export const truncateLine = (line: string, columns: number): string =>
  displayWidth(line) < columns ? line : truncate(stripColors(line), Math.max(1, columns - 1));

/** Length on screen: colours take no room. */
function displayWidth(text: string): number {
  return [...stripColors(text)].length;
}

function stripColors(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what a colour starts with
  return text.replace(/\u001b\[[0-9;]*m/g, "");
}

/** Text from elsewhere (labels, messages, names) must not move the cursor or ring the bell. */
export function stripControlCharacters(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are exactly what is removed
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ");
}
