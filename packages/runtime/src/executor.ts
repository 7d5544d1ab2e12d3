// Runs handlers inside this thread: calls, limits in time, and says how each one ended. Nothing here knows the session.
// Beside the link it serves the simulator and tests; in `astra worker` it runs in a thread of its own (host-thread.ts).

import { createHash } from "node:crypto";
import { rm } from "node:fs/promises";
import path from "node:path";
import type { Attempt } from "./attempt.ts";
import type { ExtFace } from "./ext.ts";
import type { FeedbackInput } from "./feedback.ts";
import { makeFolder } from "./folder.ts";
import type { FeedbackSender, HandlerContext, HandlerRegistry } from "./handler.ts";
import { failure, type Outcome, outcomeOf, outcomeOfThrown } from "./outcome.ts";

export interface ExecutorPorts {
  /** Milliseconds of a clock that never jumps. */
  now(): number;
  /** Calls back after so many milliseconds; the answer takes that back. */
  after(ms: number, call: () => void): () => void;
  /** The outcome of an attempt is known. Exactly once per start. */
  finished(attempt: Attempt, outcome: Outcome): void;
  /** Its handler has come back, after `finished` or at once. Exactly once per start, unless the handler never comes back. */
  settled(attempt: Attempt): void;
  feedback(attempt: Attempt, input: FeedbackInput): void;
  /** Something went wrong that no caller hears of. */
  report(problem: { message: string; cause: unknown }): void;
}

export interface ExecutorSettings {
  readonly tenant: string;
  readonly handlers: HandlerRegistry;
  readonly ext: ExtFace;
  /** Parent of the attempts' own directories. */
  readonly workRoot: string;
}

/** setTimeout takes no more; longer limits are the scheduler's to keep. */
const timerMsMax = 2 ** 31 - 1;
const dirNameCharsMax = 120;

export class Executor {
  readonly #ports: ExecutorPorts;
  readonly #settings: ExecutorSettings;

  constructor(ports: ExecutorPorts, settings: ExecutorSettings) {
    this.#ports = ports;
    this.#settings = settings;
  }

  start(attempt: Attempt): void {
    const { package_name, package_version, node_type } = attempt.dispatch;
    const found = this.#settings.handlers.find(package_name, package_version, node_type);
    if (found === undefined) {
      const message = `package ${package_name} ${package_version} has no handler for ${node_type} on this worker`;
      this.#ports.finished(attempt, failure(message, "worker.runner", "E.CMD.UNKNOWN"));
      this.#ports.settled(attempt);
      return;
    }
    const call = new Call(attempt, this.#ports);
    const context = new Context(attempt, this.#settings, found.config, this.#ports);
    try {
      const returned = found.handler(context);
      if (isThenable(returned)) {
        const settle = (outcome: (value: unknown) => Outcome) => (value: unknown) => {
          call.end(() => outcome(value));
          this.#settle(attempt, context);
        };
        returned.then(
          settle((value) => outcomeOf(value, call.elapsedMs)),
          settle(outcomeOfThrown),
        );
        return;
      }
      call.end(() => outcomeOf(returned, call.elapsedMs));
    } catch (thrown) {
      call.end(() => outcomeOfThrown(thrown));
    }
    this.#settle(attempt, context);
  }

  #settle(attempt: Attempt, context: Context): void {
    this.#ports.settled(attempt);
    const dir = context.madeDir;
    if (dir === undefined) return;
    rm(dir, { recursive: true, force: true }).catch((cause: unknown) =>
      this.#ports.report({ message: `the work directory of task ${attempt.task} could not be removed`, cause }),
    );
  }
}

/** One call of a handler: its outcome is said once, by the handler or by the clock. */
class Call {
  readonly #attempt: Attempt;
  readonly #ports: ExecutorPorts;
  readonly #startedAt: number;
  #clearTimer: (() => void) | undefined;
  #isEnded = false;

  constructor(attempt: Attempt, ports: ExecutorPorts) {
    this.#attempt = attempt;
    this.#ports = ports;
    this.#startedAt = ports.now();
    const timeoutMs = attempt.dispatch.constraints.timeout_ms;
    if (timeoutMs !== undefined) this.#clearTimer = ports.after(Math.min(timeoutMs, timerMsMax), () => this.#timeOut(timeoutMs));
  }

  get elapsedMs(): number {
    return this.#ports.now() - this.#startedAt;
  }

  end(read: () => Outcome): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#clearTimer?.();
    this.#ports.finished(this.#attempt, readSafely(read));
  }

  #timeOut(timeoutMs: number): void {
    const message = `the task did not end within its ${timeoutMs} ms`;
    this.#clearTimer = undefined;
    this.end(() => failure(message, "worker.runner", "E.TIMEOUT"));
    this.#attempt.stop.stop(new Error(message));
  }
}

/** What a handler returned may run code of its own when it is looked at (getters, proxies). */
function readSafely(read: () => Outcome): Outcome {
  try {
    return read();
  } catch (thrown) {
    return failure(
      `what the handler returned cannot be read: ${thrown instanceof Error ? thrown.message : "it throws"}`,
      "worker.runner",
    );
  }
}

/** Directories and signals cost more than a light handler: both are made when first asked for. */
class Context implements HandlerContext {
  readonly runId: string;
  readonly taskId: string;
  readonly nodeId: string;
  readonly nodeType: string;
  readonly packageName: string;
  readonly packageVersion: string;
  readonly tenant: string;
  readonly attempt: number;
  readonly params: HandlerContext["params"];
  readonly config: HandlerContext["config"];
  readonly feedback: FeedbackSender;
  readonly ext: ExtFace;
  readonly #attempt: Attempt;
  readonly #workRoot: string;
  #madeDir: string | undefined;

  constructor(attempt: Attempt, settings: ExecutorSettings, config: HandlerContext["config"], ports: ExecutorPorts) {
    const { dispatch } = attempt;
    this.runId = dispatch.run_id;
    this.taskId = dispatch.task_id;
    this.nodeId = dispatch.node_id;
    this.nodeType = dispatch.node_type;
    this.packageName = dispatch.package_name;
    this.packageVersion = dispatch.package_version;
    this.tenant = settings.tenant;
    this.attempt = dispatch.attempt ?? 1;
    this.params = dispatch.parameters;
    this.config = config;
    this.ext = settings.ext;
    this.#attempt = attempt;
    this.#workRoot = settings.workRoot;
    this.feedback = {
      send: (input) => ports.feedback(attempt, input),
      emitText: (text, { channel = "log", ...rest } = {}) => ports.feedback(attempt, { ...rest, chunks: [{ channel, text }] }),
    };
  }

  get signal(): AbortSignal {
    return this.#attempt.stop.signal;
  }

  get workDir(): string {
    if (this.#madeDir === undefined) {
      const dir = path.join(this.#workRoot, dirNameOf(this.#attempt));
      makeFolder(dir);
      this.#madeDir = dir;
    }
    return this.#madeDir;
  }

  get madeDir(): string | undefined {
    return this.#madeDir;
  }
}

/** One plain name inside the work root, whatever a scheduler put into the ids; long ones are told apart by a digest. */
function dirNameOf(attempt: Attempt): string {
  const exact = `${attempt.run}/${attempt.task}/${attempt.fence}`;
  const digest = createHash("sha256").update(exact).digest("hex").slice(0, 16);
  return `${attempt.task.replace(/[^A-Za-z0-9-]/g, "_").slice(0, dirNameCharsMax)}_${digest}`;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
