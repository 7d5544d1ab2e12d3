// What every command gets besides its flags and arguments: the client, the terminal and the form of output. Lists are printed here, so that
// all of them look alike.

import { type CliExitCode, exitCodes } from "../output/cli-failure.ts";
import { type CellKind, fitTableToWidth, formatTable } from "../output/table.ts";
import { type Colors, stripControlCharacters, type Terminal } from "../output/terminal.ts";
import type { Client } from "./api-client.ts";
import type { ConfirmAction } from "./confirmation.ts";

export const outputForms = ["table", "wide", "id"] as const;
export type OutputForm = (typeof outputForms)[number];

export interface CommandContext {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly json: boolean;
  readonly output?: OutputForm;
  /** Throws unless the user confirms; see confirmation.ts. */
  readonly confirm: ConfirmAction;
  now(): number;
}

export interface TableColumn<T> {
  readonly header: string;
  readonly value: (item: T) => string;
  /** Only in wide tables. */
  readonly isWide?: true;
  /** How the column is shortened on a narrow screen; see fitTableToWidth. */
  readonly kind?: CellKind;
  readonly color?: (item: T) => keyof Colors | null;
}

export interface ListOutput<T> {
  readonly items: readonly T[];
  /** What --json prints: the API's own body. */
  readonly jsonBody: unknown;
  readonly id: (item: T) => string;
  readonly columns: readonly TableColumn<T>[];
  /** Printed when the list is empty, with what to do. */
  readonly emptyMessage: string;
}

export function printList<T>(
  { items, jsonBody, id, columns, emptyMessage }: ListOutput<T>,
  { terminal, json, output }: CommandContext,
): CliExitCode {
  if (json) terminal.print(JSON.stringify(jsonBody));
  else if (items.length === 0) terminal.info(emptyMessage);
  else if (output === "id") for (const item of items) terminal.print(stripControlCharacters(id(item)));
  else {
    const shown = columns.filter((column) => output === "wide" || column.isWide !== true);
    const rows = [
      shown.map(({ header }) => header),
      ...items.map((item) => shown.map(({ value }) => stripControlCharacters(value(item)) || "-")),
    ];
    // A wide table is printed in full, however narrow the screen is.
    const fitted = output === "wide" ? rows : fitTableToWidth(rows, shown, terminal.stdoutColumns);
    const painted = fitted.map((row, at) => (at === 0 ? row : colorRow(row, items[at - 1] as T, shown, terminal.colors)));
    for (const line of formatTable(painted)) terminal.print(line);
  }
  return exitCodes.ok;
}

function colorRow<T>(row: readonly string[], item: T, columns: readonly TableColumn<T>[], colors: Colors): string[] {
  return row.map((cell, at) => {
    const color = columns[at]?.color?.(item) ?? null;
    return color === null ? cell : colors[color](cell);
  });
}

/** Tells that a list is longer than what was printed. */
export function printMoreHint(
  page: { readonly nextCursor: string | null },
  limit: number,
  { terminal, json }: CommandContext,
): void {
  if (page.nextCursor === null || json) return;
  terminal.info(
    limit >= 200
      ? "More items exist. Narrow the list with --filter."
      : `More items exist. Show them with --limit ${Math.min(200, limit * 2)}.`,
  );
}

/** Prints one item as JSON or as lines; the lines are made only where they are printed. */
export function printItem(
  jsonBody: unknown,
  lines: readonly string[] | (() => readonly string[]),
  { terminal, json }: CommandContext,
): CliExitCode {
  if (json) terminal.print(JSON.stringify(jsonBody));
  else for (const line of typeof lines === "function" ? lines() : lines) terminal.print(line);
  return exitCodes.ok;
}
