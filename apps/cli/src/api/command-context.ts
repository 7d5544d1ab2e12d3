// What every command gets besides its arguments and flags, and how items and lists are printed, so that all of them look alike.

import { type ExitCode, exitCodes } from "../output/cli-failure.ts";
import { type ColumnLayout, chooseColumns, fitTableToWidth, formatTable, pickColumns } from "../output/table.ts";
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
  readonly signal: AbortSignal;
  now(): number;
}

/** Arguments and flags with text values, by name. */
export type TextInput<Required extends string, Optional extends string = never> = Readonly<
  Record<Required, string> & Partial<Record<Optional, string | undefined>>
>;

/** Flags without values, by name. */
export type Switches<Name extends string> = Readonly<Partial<Record<Name, boolean>>>;

export interface TableColumn<T> extends ColumnLayout {
  readonly header: string;
  readonly value: (item: T) => string;
  readonly color?: (item: T) => keyof Colors | null;
}

export interface ListView<T> {
  readonly id: (item: T) => string;
  readonly columns: readonly TableColumn<T>[];
  /** Printed when the list is empty, with what to do. */
  readonly emptyMessage: string;
}

/** `page` is the API's own body, which --json prints. */
export function printList<T>(
  { terminal, json, output }: CommandContext,
  page: { readonly items: readonly T[]; readonly nextCursor?: string | null; readonly asOf?: number },
  { id, columns, emptyMessage }: ListView<T>,
): ExitCode {
  const { items } = page;
  if (json) terminal.print(JSON.stringify(page));
  else if (items.length === 0) terminal.info(emptyMessage);
  else if (output === "id") for (const item of items) terminal.print(stripControlCharacters(id(item)));
  else printTable(terminal, items, columns, output === "wide");
  return exitCodes.ok;
}

/** A wide table is printed in full, however narrow the screen is. */
function printTable<T>(terminal: Terminal, items: readonly T[], columns: readonly TableColumn<T>[], isWide: boolean): void {
  const rows = [
    columns.map(({ header }) => header),
    ...items.map((item) => columns.map(({ value }) => stripControlCharacters(value(item)) || "-")),
  ];
  const width = terminal.stdoutColumns;
  const places = isWide ? [...columns.keys()] : chooseColumns(rows, columns, width);
  const shown = columns.filter((_, at) => places.includes(at));
  const picked = pickColumns(rows, places);
  const fitted = isWide ? picked : fitTableToWidth(picked, shown, width);
  const painted = fitted.map((row, at) => (at === 0 ? row : colorRow(row, items[at - 1] as T, shown, terminal.colors)));
  for (const line of formatTable(painted)) terminal.print(line);
  const leftOut = columns.filter((column) => !isWide && column.isWide !== true && !shown.includes(column));
  if (leftOut.length > 0)
    terminal.info(
      `Left out on this narrow screen: ${leftOut.map(({ header }) => header).join(", ")}. Show them with --output wide.`,
    );
}

function colorRow<T>(row: readonly string[], item: T, columns: readonly TableColumn<T>[], colors: Colors): string[] {
  return row.map((cell, at) => {
    const color = columns[at]?.color?.(item) ?? null;
    return color === null ? cell : colors[color](cell);
  });
}

/** Prints a page of a list, and how to get the next if there is one. */
export function printPage<T>(
  context: CommandContext,
  page: { readonly items: readonly T[]; readonly nextCursor: string | null },
  view: ListView<T>,
): ExitCode {
  printList(context, page, view);
  if (page.nextCursor !== null && !context.json)
    context.terminal.info(
      `More items exist. Show the next with --cursor ${stripControlCharacters(page.nextCursor)}, or all with --all.`,
    );
  return exitCodes.ok;
}

/**
 * Prints one item as JSON or as lines, which are made only where they are printed; then, unless as JSON, a hint on stderr. Both may hold
 * foreign text.
 */
export function printItem(
  { terminal, json }: CommandContext,
  jsonBody: unknown,
  lines: string | readonly string[] | (() => readonly string[]),
  hint?: string | false,
): ExitCode {
  if (json) terminal.print(JSON.stringify(jsonBody));
  else {
    const shown = typeof lines === "function" ? lines() : lines;
    for (const line of typeof shown === "string" ? [shown] : shown) terminal.print(stripControlCharacters(line));
    if (hint) terminal.info(stripControlCharacters(hint));
  }
  return exitCodes.ok;
}
