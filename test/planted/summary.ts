/** The last lines of `npm run planted`, and how it exits. */
import type { Verdict } from "./try-bug.ts";

/** Every bug that was not caught by its name, then the figures. */
export function summarize(verdicts: readonly Verdict[]): { lines: string[]; exitCode: number } {
  const others = verdicts.filter(({ outcome }) => outcome !== "caught");
  const count = (wanted: Verdict["outcome"]): number => verdicts.filter(({ outcome }) => outcome === wanted).length;
  const caught = count("caught");
  const share = verdicts.length === 0 ? 0 : Math.floor((1000 * caught) / verdicts.length) / 10;
  const lines = others.map(({ id, outcome, by }) => `${outcome}: ${id}: ${by}`);
  const rest = (["survived", "hung", "not planted"] as const).map((outcome) => `${count(outcome)} ${outcome}`);
  lines.push(`${verdicts.length} planted bugs: ${caught} caught (${share} %), ${rest.join(", ")}`);
  return { lines, exitCode: others.length > 0 || verdicts.length === 0 ? 1 : 0 };
}
