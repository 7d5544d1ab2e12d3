// The status that a handler returns beside its outputs, as the worker reads it.

export type ResultStatus = "SUCCEEDED" | "FAILED" | "SKIPPED" | "CANCELLED";

/** What handlers in the field return; any other word is a failure. */
const statusWords: readonly (readonly [ResultStatus, readonly string[]])[] = [
  ["SUCCEEDED", ["success", "succeed", "succeeded", "allowed", "blocked", "ok", "done"]],
  ["CANCELLED", ["cancel", "cancelled"]],
  ["SKIPPED", ["skip", "skipped"]],
];

export function readResultStatus(status: unknown): ResultStatus {
  if (status === undefined || status === null) return "SUCCEEDED";
  if (typeof status !== "string") return "FAILED";
  const word = status.trim().toLowerCase();
  return statusWords.find(([, words]) => words.includes(word))?.[0] ?? "FAILED";
}
