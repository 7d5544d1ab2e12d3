// What every command is given besides its own words: the client, the terminal, and in which form answers are wanted. Lists are printed here,
// so that all of them look and pipe alike.

import type { Run } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import type { Agree } from "./consent.ts";
import { type ExitCode, exitCodes } from "./failure.ts";
import { type CellKind, fitRows, layTable, type Paint, type Terminal, tame } from "./terminal.ts";

export const outputs = ["table", "wide", "id"] as const;
export type OutputForm = (typeof outputs)[number];

export interface Place {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly json: boolean;
  readonly output?: OutputForm;
  /** Returns where the person agrees; see consent.ts. */
  readonly agree: Agree;
  now(): number;
}

export interface Column<T> {
  readonly head: string;
  readonly of: (item: T) => string;
  /** Only in wide tables. */
  readonly isWide?: true;
  /** What gives way where the screen is too narrow; see fitRows. */
  readonly kind?: CellKind;
  readonly tone?: (item: T) => keyof Paint | null;
}

export interface Listing<T> {
  readonly items: readonly T[];
  /** What --json prints: the API's own body. */
  readonly body: unknown;
  readonly id: (item: T) => string;
  readonly columns: readonly Column<T>[];
  /** Said when there is nothing, with what to do. */
  readonly none: string;
}

export function printList<T>({ items, body, id, columns, none }: Listing<T>, { terminal, json, output }: Place): ExitCode {
  if (json) terminal.print(JSON.stringify(body));
  else if (items.length === 0) terminal.say(none);
  else if (output === "id") for (const item of items) terminal.print(tame(id(item)));
  else {
    const shown = columns.filter((column) => output === "wide" || column.isWide !== true);
    const rows = [shown.map(({ head }) => head), ...items.map((item) => shown.map(({ of }) => tame(of(item)) || "-"))];
    // A wide table is what was asked for, however narrow the screen.
    const fitted = output === "wide" ? rows : fitRows(rows, shown, terminal.width);
    const painted = fitted.map((row, at) => (at === 0 ? row : paintRow(row, items[at - 1] as T, shown, terminal.paint)));
    for (const line of layTable(painted)) terminal.print(line);
  }
  return exitCodes.ok;
}

function paintRow<T>(row: readonly string[], item: T, columns: readonly Column<T>[], paint: Paint): string[] {
  return row.map((cell, at) => {
    const tone = columns[at]?.tone?.(item) ?? null;
    return tone === null ? cell : paint[tone](cell);
  });
}

/** Whole items only when one page was asked for; what more there is is said. */
export function sayMore(page: { readonly nextCursor: string | null }, limit: number, { terminal, json }: Place): void {
  if (page.nextCursor === null || json) return;
  terminal.say(
    limit >= 200 ? "more there are; say more of what you look for: --filter" : `more: --limit ${Math.min(200, limit * 2)}`,
  );
}

/** One thing: its JSON, its id alone, or lines for people. */
export function printOne(body: unknown, lines: readonly string[], { terminal, json }: Place): ExitCode {
  if (json) terminal.print(JSON.stringify(body));
  else for (const line of lines) terminal.print(line);
  return exitCodes.ok;
}

/** The first 19 characters of an instant, which is what people read of it. */
export const when = (instant: string | undefined): string =>
  instant === undefined ? "" : `${instant.slice(0, 19).replace("T", " ")}Z`;

/** How long something took that has ended. */
export const tookOf = ({ startedAt, finishedAt }: Pick<Run, "startedAt" | "finishedAt">): string =>
  startedAt && finishedAt ? span(Date.parse(finishedAt) - Date.parse(startedAt)) : "";

export function span(ms: number): string {
  if (ms < 60_000) return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 120
    ? `${minutes} min`
    : minutes < 2_880
      ? `${Math.floor(minutes / 60)} h`
      : `${Math.floor(minutes / 1_440)} d`;
}
