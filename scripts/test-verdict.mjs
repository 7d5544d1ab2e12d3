/**
 * The verdict of `npm test`: what its last lines say and how it exits. Pure, and free of dependencies, because it must
 * also speak when the set-up failed on an old Node.
 */

/** @type {import("./test-verdict.d.mts").JudgeRun} */
export const judgeRun = ({ counts, failedSteps, hung = [] }) => {
  const lines = [];
  const skipped = counts?.skipped ?? [];
  const passed = counts?.passed ?? 0;
  let failed = (counts?.failed ?? 0) + failedSteps.length + hung.length;
  for (const { title, reason } of skipped) lines.push(`skipped: ${title}: ${reason}`);
  for (const step of failedSteps) lines.push(`failed check: ${step}`);
  for (const file of hung) lines.push(`hung: ${file}`);
  // Green because nothing ran is the one lie a test command must never tell.
  const isExplained = failedSteps.length + hung.length > 0;
  if (counts === null && !isExplained) lines.push("failed: the test runner ended without reporting a result");
  else if (counts !== null && passed + counts.failed === 0) lines.push("failed: no test ran");
  if (failed === 0 && passed === 0) failed = 1;
  else if (counts === null && !isExplained) failed += 1;
  lines.push(`${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`);
  return { lines, exitCode: failed > 0 ? 1 : 0 };
};
