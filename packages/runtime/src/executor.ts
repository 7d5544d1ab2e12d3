// Runs handlers inside this thread: calls, limits in time, and says how each one ended. Nothing here knows the session.
// Beside the link it serves the simulator and tests; in `astra worker` it runs in a thread of its own (host-thread.ts).

import { rm } from "node:fs/promises";
import { Fault, fault, type ResultArtifact } from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";
import { Context, type ContextPorts, type ContextSettings } from "./context.ts";
import type { Handler, HandlerRegistry, RefWords } from "./handler.ts";
import { failure, type KnownOutcome, type Outcome, type OutcomePlace, outcomeOf, outcomeOfThrown } from "./outcome.ts";
import type { Resource } from "./resource.ts";
import type { ResourceRegistry } from "./resources.ts";
import { maskFeedback, maskFor, maskOutcome, type SecretMask } from "./secrets.ts";

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
  readonly #place: OutcomePlace;

  constructor(ports: ExecutorPorts, settings: ExecutorSettings) {
    const { resources } = settings;
    this.#ports = ports;
    this.#settings = settings;
    this.#place = { workerName: resources.settings.workerName, isKept: (id) => resources.get(id) !== undefined };
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
    const mask = maskFor(attempt.dispatch.parameters, found.openKeys);
    const call = new Call(attempt, this.#ports, mask);
    const ports = mask === null ? this.#ports : this.#maskedPorts(mask);
    const context = new Context({ attempt, settings: this.#settings, config: found.config, leased, ports });
    this.#call(attempt, found.handler, call, context);
  }

  /** Only where the task was granted a secret: all others say what they say at no cost. */
  #maskedPorts(mask: SecretMask): ExecutorPorts {
    const ports = this.#ports;
    return {
      ...ports,
      feedback(attempt, input) {
        try {
          const clean = maskFeedback(mask, input);
          if (clean !== null) ports.feedback(attempt, clean);
        } catch (cause) {
          ports.report({ message: `feedback of task ${attempt.task} cannot be written as JSON and was dropped`, cause });
        }
      },
    };
  }

  #call(attempt: Attempt, handler: Handler, call: Call, context: Context): void {
    let named: readonly ResultArtifact[] = noResources;
    const read = (value: unknown): KnownOutcome => {
      const outcome = outcomeOf(value, call.elapsedMs, this.#place);
      if (outcome.type === "result" && outcome.artifacts !== undefined) {
        named = outcome.artifacts.filter(({ inline, worker_name }) => inline !== true && worker_name === this.#place.workerName);
        for (const { resource_id } of named) this.#settings.resources.announce(resource_id);
      }
      return outcome;
    };
    const settleCall = (): void => {
      this.#settle(attempt, context);
      // What went before its result was said is only known with it.
      for (const { resource_id } of named) this.#settings.resources.tellIfLost(resource_id);
    };
    try {
      const returned = handler(context);
      if (isThenable(returned)) {
        const settle = (outcome: (value: unknown) => KnownOutcome) => (value: unknown) => {
          call.end(() => outcome(value));
          settleCall();
        };
        returned.then(settle(read), settle(outcomeOfThrown));
        return;
      }
      call.end(() => read(returned));
    } catch (thrown) {
      call.end(() => outcomeOfThrown(thrown));
    }
    settleCall();
  }

  /** All that the task refers to, or why it cannot run here. What is leased is neither evicted nor expires while it runs. */
  #lease(attempt: Attempt): readonly Resource[] | Fault {
    const refs = attempt.dispatch.resource_refs as readonly RefWords[] | undefined;
    if (refs === undefined || refs.length === 0) return noResources;
    const { resources } = this.#settings;
    const leased: Resource[] = [];
    try {
      for (const { resource_id, worker_name, expires_at } of refs) {
        if (worker_name !== resources.settings.workerName)
          throw elsewhere(resource_id, worker_name, resources.settings.workerName);
        const resource = resources.lease(resource_id);
        leased.push(resource);
        // The scheduler counts its life from this use on.
        const until = expires_at === undefined ? Number.NaN : Date.parse(expires_at);
        if (until > resource.expiresAt) resources.touch(resource_id, until);
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
  readonly #mask: SecretMask | null;
  #clearTimer: (() => void) | undefined;
  #isEnded = false;

  constructor(attempt: Attempt, ports: ExecutorPorts, mask: SecretMask | null) {
    this.#attempt = attempt;
    this.#mask = mask;
    this.#ports = ports;
    this.#startedAt = ports.now();
    const timeoutMs = attempt.dispatch.constraints.timeout_ms;
    if (timeoutMs !== undefined) this.#clearTimer = ports.after(Math.min(timeoutMs, timerMsMax), () => this.#timeOut(timeoutMs));
  }

  get elapsedMs(): number {
    return this.#ports.now() - this.#startedAt;
  }

  end(read: () => KnownOutcome): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#clearTimer?.();
    const outcome = readSafely(read);
    this.#ports.finished(this.#attempt, this.#mask === null ? outcome : this.#cleaned(this.#mask, outcome));
  }

  /** What it said last and was held back goes before its outcome. */
  #cleaned(mask: SecretMask, outcome: KnownOutcome): Outcome {
    const chunks = mask.takeHeld();
    if (chunks.length > 0) this.#ports.feedback(this.#attempt, { chunks });
    const clean = readSafely(() => maskOutcome(mask, outcome));
    if (clean !== outcome && clean.type === "result") {
      const message = `the result of task ${this.#attempt.task} held a secret that was granted to it, and says *** instead`;
      this.#ports.report({ message, cause: "what a handler returns is stored" });
    }
    return clean;
  }

  #timeOut(timeoutMs: number): void {
    const message = `the task did not end within its ${timeoutMs} ms`;
    this.#clearTimer = undefined;
    this.end(() => failure(message, "worker.runner", "E.TIMEOUT"));
    this.#attempt.stop.stop(new Error(message));
  }
}

/** What a handler returned may run code of its own when it is looked at (getters, proxies). */
function readSafely(read: () => KnownOutcome): KnownOutcome {
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
