// Programs of one task, connected by pipes: started without a shell, their output streamed and limited, ended together.

import type { ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { HandlerContext } from "@astraflow/sdk";
import { buildEnvironment, findProgram } from "./allowed-programs.ts";
import { failure } from "./failure.ts";

export interface Program {
  readonly program: string;
  readonly args?: readonly string[];
  /** Exit codes that count as success; 0 where absent. */
  readonly okExitCodes?: readonly number[];
}

export interface RunOptions {
  readonly stdin: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Of everything that the programs print. */
  readonly outputBytesMax: number;
}

export interface RunResult {
  /** Of each program; null: ended by a signal. */
  readonly exitCodes: readonly (number | null)[];
  readonly stdout: string;
  readonly stderr: string;
  readonly outputBytes: number;
  readonly isTruncated: boolean;
}

/** The end of what was printed, for the result; all of it is in the output of the task. */
const tailChars = 64 * 1024;
const reasonChars = 1_000;

/** The last characters of a text that grows. */
class Tail {
  text = "";
  isCut = false;

  add(text: string): void {
    this.text += text;
    if (this.text.length <= tailChars) return;
    this.isCut = true;
    this.text = this.text.slice(-tailChars);
  }
}

interface StartedProgram extends Program {
  readonly child: ChildProcess & { readonly stdin: Writable; readonly stdout: Readable; readonly stderr: Readable };
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  readonly stderr: Tail;
  /** The next program had read enough before this one had printed all: how it ends then says nothing. */
  isCutOff: boolean;
}

/**
 * The standard output of each program is the input of the next one. Throws E.RUNNER.REFUSED for what the worker does not allow, E.TIMEOUT,
 * E.RUNNER.OUTPUT for too much output, and E.RUNNER.FAILURE for a program that failed; the runtime ends whatever still runs then.
 */
export async function runPrograms(ctx: HandlerContext, programs: readonly Program[], options: RunOptions): Promise<RunResult> {
  const env = buildEnvironment(options.env);
  // All are looked up before the first is started: half a pipeline would do half the work.
  const files = programs.map(({ program }) => findProgram(program));
  const { promise: broken, reject } = Promise.withResolvers<never>();
  const stdout = new Tail();
  let outputBytes = 0;
  const print = (channel: "stdout" | "stderr", text: string, tail: Tail): void => {
    outputBytes += Buffer.byteLength(text);
    if (outputBytes > options.outputBytesMax)
      return reject(
        failure("E.RUNNER.OUTPUT", `the programs printed more than ${options.outputBytesMax} bytes; raise maxOutputBytes`),
      );
    tail.add(text);
    ctx.feedback.emitText(text, { channel });
  };
  const started = programs.map((one, at) => startProgram(ctx, one, files[at] ?? "", env));
  for (const { child, stderr } of started) child.stderr.on("data", (text: string) => print("stderr", text, stderr));
  started.at(-1)?.child.stdout.on("data", (text: string) => print("stdout", text, stdout));
  connect(started, options.stdin);
  const timer = setTimeout(() => {
    const names = programs.map(({ program }) => program).join(" | ");
    reject(failure("E.TIMEOUT", `${names} took more than ${options.timeoutMs} ms${reasonOf(started)}`));
  }, options.timeoutMs);
  try {
    const ends = await Promise.race([Promise.all(started.map(({ ended }) => ended)), broken]);
    ctx.signal.throwIfAborted();
    for (const [at, { code, signal }] of ends.entries()) checkEnd(started, at, code, signal);
    const stderr = started.map((one) => one.stderr.text).join("");
    const isTruncated = stdout.isCut || started.some((one) => one.stderr.isCut);
    return { exitCodes: ends.map(({ code }) => code), stdout: stdout.text, stderr, outputBytes, isTruncated };
  } finally {
    clearTimeout(timer);
  }
}

function startProgram(ctx: HandlerContext, one: Program, file: string, env: Record<string, string>): StartedProgram {
  const child = ctx.spawn(file, one.args ?? [], {
    cwd: ctx.workDir,
    env,
    shell: false,
    stdio: ["pipe", "pipe", "pipe"],
  }) as StartedProgram["child"];
  child.stdout.setEncoding("utf8");
  child.stderr.setEncoding("utf8");
  const ended = new Promise<Awaited<StartedProgram["ended"]>>((resolve, reject) => {
    child.once("error", (cause) =>
      reject(failure("E.RUNNER.FAILURE", `${one.program} cannot be started: ${cause.message}`, cause)),
    );
    // Not at its exit: what it printed last is read by then.
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  return { ...one, child, ended, stderr: new Tail(), isCutOff: false };
}

/** A program need not read to the end, as `head` does not: then the one before is told by its closed pipe. */
function connect(started: readonly StartedProgram[], stdin: string): void {
  for (const [at, { child }] of started.entries()) {
    const before = started[at - 1];
    child.stdin.on("error", (problem: NodeJS.ErrnoException) => {
      if (problem.code !== "EPIPE" && problem.code !== "ECONNRESET") child.emit("error", problem);
    });
    // Also without an error: Node closes the input of a program that has ended.
    child.stdin.once("close", () => {
      if (before === undefined) return;
      before.isCutOff = !before.child.stdout.readableEnded;
      before.child.stdout.destroy();
    });
    if (before === undefined) child.stdin.end(stdin);
    else before.child.stdout.pipe(child.stdin);
  }
}

function checkEnd(started: readonly StartedProgram[], at: number, code: number | null, signal: NodeJS.Signals | null): void {
  const one = started[at];
  if (one === undefined || (code !== null && (one.okExitCodes ?? [0]).includes(code))) return;
  // By a signal, or with an error of its own: a closed pipe is told in one way, one with unread bytes in another.
  if (one.isCutOff) return;
  const how = code === null ? `was ended by ${signal}` : `ended with exit code ${code}`;
  throw failure("E.RUNNER.FAILURE", `${one.program} ${how}${reasonOf([one])}`);
}

/** The last that was printed to stderr, where programs say why. */
function reasonOf(started: readonly StartedProgram[]): string {
  const text = started
    .map((one) => one.stderr.text)
    .join("")
    .trim();
  return text === "" ? "" : `: ${text.slice(-reasonChars)}`;
}
