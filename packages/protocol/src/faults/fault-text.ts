// Formats a fault for a terminal: code, message, problems, suggestion, link. The program chooses the stream and the exit code.

import { isFaultCode } from "./fault-codes.ts";

export interface FaultSummary {
  /** Of the table of faults, or one that only this program has. */
  readonly code: string;
  readonly message: string;
  readonly problems?: readonly string[];
  readonly suggestion?: string | null | undefined;
}

export function formatFault({ code, message, problems = [], suggestion: next }: FaultSummary): string {
  const lines = [`error ${code}: ${message}`, ...problems.map((problem) => `  ${problem}`)];
  if (next) lines.push(`try: ${next}`);
  if (isFaultCode(code)) lines.push(`docs: docs/faults.md#${code}`);
  return `${lines.join("\n")}\n`;
}

/** Settings that cannot be used, all at once; one alone is the sentence itself. */
export function formatSettingsFault(problems: readonly string[], next: string): string {
  const [only] = problems;
  const summary =
    problems.length === 1 && only !== undefined
      ? { message: only }
      : { message: `${problems.length} settings cannot be used:`, problems };
  return formatFault({ code: "E.CONFIG.INVALID", ...summary, suggestion: next });
}
