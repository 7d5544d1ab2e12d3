// Which statuses of runs and tasks are final, and the versions of a workflow that a run can be started with.

import type { Run, RunNodeStatus } from "@astraflow/protocol";
import { usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";

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
