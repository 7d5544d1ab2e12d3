// Runs handlers inside this thread: calls, limits in time, and says how each one ended. Nothing here knows the session.
// Beside the link it serves the simulator and tests; in `astra worker` it runs in a thread of its own (host-thread.ts).

import { rm } from "node:fs/promises";
import { Fault, fault } from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";
import { Context, type ContextPorts, type ContextSettings } from "./context.ts";
import type { Handler, HandlerRegistry, RefWords } from "./handler.ts";
import { failure, type Outcome, outcomeOf, outcomeOfThrown } from "./outcome.ts";
import type { Resource } from "./resource.ts";
import type { ResourceRegistry } from "./resources.ts";

export interface ExecutorPorts extends ContextPorts {
  /** Milliseconds of a clock that never jumps. */
  now(): number;
  /** The outcome of an attempt is known. Exactly once per start. */
  finished(attempt: Attempt, outcome: Outcome): void;
  /** Its handler has come back, after `finished` or at once. Exactly once per start, unless the handler never comes back. */
  settled(attempt: Attempt): void;
  /** Something went wrong that no caller hears of. */
  report(problem: { message: string; cause: unknown }): void;
}

export interface ExecutorSettings extends ContextSettings {
  readonly handlers: HandlerRegistry;
  readonly resources: ResourceRegistry;
}

/** setTimeout takes no more; longer limits are the scheduler's to keep. */
const timerMsMax = 2 ** 31 - 1;

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
    const leased = this.#lease(attempt);
    if (leased instanceof Fault) {
      this.#ports.finished(attempt, failure(leased.message, "worker.resources", leased.code));
      this.#ports.settled(attempt);
      return;
    }
    const call = new Call(attempt, this.#ports);
    const context = new Context({ attempt, settings: this.#settings, config: found.config, leased, ports: this.#ports });
    this.#call(attempt, found.handler, call, context);
  }

  #call(attempt: Attempt, handler: Handler, call: Call, context: Context): void {
    const { workerName } = this.#settings.resources.settings;
    const read = (value: unknown): Outcome => outcomeOf(value, call.elapsedMs, workerName);
    try {
      const returned = handler(context);
      if (isThenable(returned)) {
        const settle = (outcome: (value: unknown) => Outcome) => (value: unknown) => {
          call.end(() => outcome(value));
          this.#settle(attempt, context);
        };
        returned.then(settle(read), settle(outcomeOfThrown));
        return;
      }
      call.end(() => read(returned));
    } catch (thrown) {
      call.end(() => outcomeOfThrown(thrown));
    }
    this.#settle(attempt, context);
  }

  /** All that the task refers to, or why it cannot run here. What is leased is neither evicted nor expires while it runs. */
  #lease(attempt: Attempt): readonly Resource[] | Fault {
    const refs = attempt.dispatch.resource_refs as readonly RefWords[] | undefined;
    if (refs === undefined || refs.length === 0) return noResources;
    const { resources } = this.#settings;
    const leased: Resource[] = [];
    try {
      for (const { resource_id, worker_name } of refs) {
        if (worker_name !== resources.settings.workerName)
          throw elsewhere(resource_id, worker_name, resources.settings.workerName);
        leased.push(resources.lease(resource_id));
      }
      return leased;
    } catch (thrown) {
      for (const { id } of leased) resources.release(id);
      if (thrown instanceof Fault) return thrown;
      throw thrown;
    }
  }

  #settle(attempt: Attempt, context: Context): void {
    context.endChildren();
    for (const { id } of context.leased) this.#settings.resources.release(id);
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

const noResources: readonly never[] = [];

const elsewhere = (resource: string, named: string, own: string): Fault =>
  fault("E.RESOURCE.MISSING", `resource ${resource} is at worker ${named}, and this is ${own}`);

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
