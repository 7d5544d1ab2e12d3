// The statuses of runs and tasks: which are final, and how they look; and the versions of a workflow that a run can be started with.

import type { Run, RunNodeStatus } from "@astraflow/protocol";
import { usageFailure } from "../output/cli-failure.ts";
import { type Colors, stripControlCharacters } from "../output/terminal.ts";

/** A glyph and a word for each status, never colour alone. */
export const statusStyles = {
  queued: { glyph: "◌", word: "waiting", color: "dim" },
  sent: { glyph: "◍", word: "sent", color: "blue" },
  running: { glyph: "◔", word: "running", color: "blue" },
  succeeded: { glyph: "✓", word: "succeeded", color: "green" },
  failed: { glyph: "✕", word: "failed", color: "red" },
  cancelled: { glyph: "⊘", word: "cancelled", color: "dim" },
  skipped: { glyph: "⤼", word: "skipped", color: "dim" },
} as const satisfies Record<string, { glyph: string; word: string; color: keyof Colors }>;

export const statusColor = (status: string): keyof Colors | null =>
  (statusStyles as Readonly<Record<string, { color: keyof Colors }>>)[status]?.color ?? null;

const finalStatuses: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled", "skipped"]);

export const isFinalStatus = (status: RunNodeStatus["status"] | undefined): boolean => finalStatuses.has(status ?? "");

export const isRunEnded = (run: Pick<Run, "status">): boolean => run.status !== "queued" && run.status !== "running";

/** A version by its number or by one of these names. */
export function parseVersion<Name extends string>(text: string, names: readonly Name[]): number | Name {
  const name = names.find((one) => one === text);
  if (name !== undefined) return name;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw usageFailure(
    `--version is a number, ${names.slice(0, -1).join(", ")} or ${names.at(-1)}; "${stripControlCharacters(text)}" is none of them.`,
  );
}
