// Failures of the CLI: one error class, its exit code and its text on stderr. The exit codes are a contract with scripts.

import { type ExitCode, exitCodes, type Fault, formatFault } from "@astraflow/protocol";
import { stripControlCharacters } from "./terminal.ts";

export { type ExitCode, exitCodes };

export interface FailureBody {
  readonly error: string;
  readonly message: string;
  readonly requestId?: string;
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** Thrown anywhere in a command, printed once at the top. */
export class CliFailure extends Error {
  readonly exitCode: ExitCode;
  readonly body: FailureBody;
  /** A command to try next. */
  readonly suggestedCommand: string | null;

  constructor(exitCode: ExitCode, body: FailureBody, next: string | null = null) {
    super(body.message);
    this.exitCode = exitCode;
    this.body = body;
    this.suggestedCommand = next;
  }
}

export const usageFailure = (message: string, next: string | null = null): CliFailure =>
  new CliFailure(exitCodes.usage, { error: "E.REQUEST.INVALID", message }, next);

/** Input that a reader of the protocol has refused. */
export const faultFailure = ({ code, message, details }: Fault, source?: string): CliFailure =>
  source === undefined
    ? new CliFailure(exitCodes.usage, { error: code, message, details })
    : new CliFailure(exitCodes.usage, { error: code, message: `${source}: ${message}` });

/** With the closest name, if there is one. */
export const notFoundFailure = (what: string, name: string, suggestion: string | null, next: string): CliFailure => {
  const hint = suggestion === null ? "" : ` Did you mean "${stripControlCharacters(suggestion)}"?`;
  const message = `No ${what} "${stripControlCharacters(name)}" found.${hint}`;
  return new CliFailure(exitCodes.notFound, { error: "E.NOT_FOUND", message }, next);
};

/** Something that cannot happen unless a program is broken. */
export const internalFailure = (message: string): CliFailure =>
  new CliFailure(exitCodes.failed, { error: "E.INTERNAL", message });

export const errorMessage = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** The exit code for an HTTP status that is not a success. */
export function exitCodeForStatus(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCodes.notAllowed;
  if (status === 404 || status === 410) return exitCodes.notFound;
  if (status === 409 || status === 412) return exitCodes.conflict;
  if (status === 408 || status === 504) return exitCodes.timeout;
  if (status === 502 || status === 503) return exitCodes.unreachable;
  return exitCodes.failed;
}

/** `error CODE: message`, then what to try and where it is documented; with --json the error body of the API. */
export function describeFailure(failure: CliFailure, isJson: boolean): string {
  if (isJson) return `${JSON.stringify(failure.body)}\n`;
  const { error: code, details } = failure.body;
  const message = nameFlags(failure.body.message);
  const problems = describeProblems(details?.["problems"], message);
  return formatFault({ code, message, problems, suggestion: failure.suggestedCommand });
}

/** What the API calls by the field of its request is a flag here. */
export const nameFlags = (message: string): string =>
  message.replaceAll("send allowUnknown: true and", "add --allow-unknown and");

const problemsShownMax = 20;

function describeProblems(problems: unknown, message: string): string[] {
  if (!Array.isArray(problems)) return [];
  // A single problem may repeat the message.
  if (problems.length === 1 && nameFlags(String(problemMessage(problems[0]))) === message) return [];
  const shown = problems.slice(0, problemsShownMax).map(describeProblem);
  return problems.length > shown.length ? [...shown, `and ${problems.length - shown.length} more; --json shows all`] : shown;
}

const problemMessage = (problem: unknown): unknown =>
  typeof problem === "object" && problem !== null && "message" in problem ? problem.message : null;

function describeProblem(problem: unknown): string {
  if (typeof problem !== "object" || problem === null) return String(problem);
  const { path, message, severity } = problem as { path?: unknown; message?: unknown; severity?: unknown };
  const prefix = severity === "warning" ? "warning " : "";
  const sentence = nameFlags(String(message));
  return path === undefined ? sentence : `${prefix}${String(path)}: ${sentence}`;
}
