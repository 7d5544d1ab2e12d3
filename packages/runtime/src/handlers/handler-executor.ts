// Runs handlers inside this thread: calls them, limits their time and reports their outcomes. Nothing here knows the session.

import { rm } from "node:fs/promises";
import { Fault, fault, type ResultArtifact } from "@astraflow/protocol";
import type { DispatchedResourceRef, FeedbackInput, KeptResource } from "@astraflow/sdk";
import type { LocalAttempt } from "../attempts/attempt.ts";
import { readFeedbackText } from "../attempts/feedback.ts";
import {
  type AttemptOutcome,
  errorOutcome,
  type HandlerOutcome,
  type OutcomeContext,
  readReturnedOutcome,
  readThrownOutcome,
} from "../attempts/outcome.ts";
import type { ResourceRegistry } from "../resources/resource-registry.ts";
import { AttemptContext, type AttemptContextPorts, type AttemptContextSettings } from "./attempt-context.ts";
import { readPackageStack } from "./error-stack.ts";
import type { HandlerRegistry, RegisteredHandler } from "./handler.ts";
import { callWithOutput, type OutputChannel } from "./handler-output.ts";
import { createMaskedResources } from "./masked-resources.ts";
import { createSecretMask, maskFeedback, maskOutcome, maskVendorFrames, type SecretMask } from "./secret-mask.ts";

export interface HandlerExecutorPorts extends AttemptContextPorts {
  /** Milliseconds of a clock that never jumps. */
  now(): number;
  /** The outcome of an attempt is known. Exactly once per start. */
  attemptFinished(attempt: LocalAttempt, outcome: AttemptOutcome): void;
  /** Its handler has returned, after `attemptFinished` or at once. Exactly once per start, unless the handler never returns. */
  handlerReturned(attempt: LocalAttempt): void;
  /** Something failed that no caller is told of by other means. */
  reportProblem(problem: { message: string; cause: unknown }): void;
}

export interface HandlerExecutorSettings extends AttemptContextSettings {
  readonly handlers: HandlerRegistry;
  readonly resources: ResourceRegistry;
}

/** setTimeout takes no more; longer limits are the scheduler's to keep. */
const timerMsMax = 2 ** 31 - 1;

export class HandlerExecutor {
  readonly #ports: HandlerExecutorPorts;
  readonly #settings: HandlerExecutorSettings;
  readonly #outcomeContext: OutcomeContext;
  /** Calls whose handlers have not returned. */
  readonly #calls = new Map<LocalAttempt, HandlerCall>();

  constructor(ports: HandlerExecutorPorts, settings: HandlerExecutorSettings) {
    const { resources } = settings;
    this.#ports = ports;
    this.#settings = settings;
    this.#outcomeContext = { workerName: resources.settings.workerName, isKeptResource: (id) => resources.get(id) !== undefined };
  }

  start(attempt: LocalAttempt): void {
    const { package_name, package_version, node_type } = attempt.dispatch;
    const found = this.#settings.handlers.findHandler(package_name, package_version, node_type);
    if (found === undefined) {
      const message = `package ${package_name} ${package_version} has no handler for ${node_type} on this worker`;
      return this.#refuse(attempt, errorOutcome(message, "worker.runner", "E.CMD.UNKNOWN"));
    }
    const leased = this.#leaseResources(attempt);
    if (leased instanceof Fault) return this.#refuse(attempt, errorOutcome(leased.message, "worker.resources", leased.code));
    const mask = createSecretMask(attempt.dispatch.parameters, found.nonSecretKeys);
    const call = new HandlerCall(attempt, this.#ports, mask);
    this.#calls.set(attempt, call);
    const context = this.#createContext(attempt, { config: found.config, leased }, mask);
    this.#runHandler(attempt, found, call, context);
  }

  /** Ends a running attempt at once, whatever its handler still does; does nothing where its outcome is known. */
  failAttempt(attempt: LocalAttempt, why: Fault): void {
    this.#calls.get(attempt)?.fail(why);
  }

  #refuse(attempt: LocalAttempt, outcome: HandlerOutcome): void {
    this.#ports.attemptFinished(attempt, outcome);
    this.#ports.handlerReturned(attempt);
  }

  #createContext(
    attempt: LocalAttempt,
    given: Pick<AttemptContext, "config" | "leased">,
    mask: SecretMask | null,
  ): AttemptContext {
    if (mask === null) return new AttemptContext(attempt, given, this.#settings, this.#ports);
    // Only where the task was granted a secret; all others cost nothing.
    const ext = maskVendorFrames(mask, this.#settings.ext);
    const resources = createMaskedResources(this.#settings.resources, mask, () => context.workDir);
    const context: AttemptContext = new AttemptContext(
      attempt,
      given,
      { ...this.#settings, ext, resources },
      this.#portsWithMask(mask),
    );
    return context;
  }

  #portsWithMask(mask: SecretMask): AttemptContextPorts {
    const ports = this.#ports;
    return {
      ...ports,
      sendFeedback: (attempt, input) => {
        let read: FeedbackInput | Fault;
        try {
          read = readFeedbackText(JSON.stringify(input));
        } catch (cause) {
          const message = `feedback of task ${attempt.task} cannot be written as JSON and was dropped`;
          return ports.reportProblem({ message, cause: mask.maskText(String(cause)) });
        }
        if (read instanceof Fault) return this.failAttempt(attempt, read);
        const clean = maskFeedback(mask, read);
        if (clean !== null) ports.sendFeedback(attempt, clean);
      },
      callNext: (attempt, { argumentsJson }, answer) =>
        ports.callNext(attempt, { argumentsJson: JSON.stringify(mask.maskJson(JSON.parse(argumentsJson))) }, answer),
    };
  }

  #runHandler(
    attempt: LocalAttempt,
    { handler, packageDir }: RegisteredHandler,
    call: HandlerCall,
    context: AttemptContext,
  ): void {
    let named: readonly ResultArtifact[] = noResources;
    const read = (value: unknown): HandlerOutcome => {
      const outcome = readReturnedOutcome(value, call.elapsedMs, this.#outcomeContext);
      if (outcome.type === "result" && outcome.artifacts !== undefined) {
        named = outcome.artifacts.filter(
          ({ inline, worker_name }) => inline !== true && worker_name === this.#outcomeContext.workerName,
        );
        for (const { resource_id } of named) this.#settings.resources.markReferenced(resource_id);
      }
      return outcome;
    };
    const readThrown = (thrown: unknown): HandlerOutcome => {
      const stack = readPackageStack(thrown, packageDir);
      if (stack !== undefined) context.feedback.emitText(`${stack}\n`, { channel: "stderr" });
      return { ...readThrownOutcome(thrown), ...(stack !== undefined && { stack }) };
    };
    const print = (channel: OutputChannel, text: string): void => context.feedback.emitText(text, { channel });
    const settleCall = (): void => {
      this.#cleanUp(attempt, context);
      // What went before its result was said is only known with it.
      for (const { resource_id } of named) this.#settings.resources.reportIfLost(resource_id);
    };
    try {
      const returned = callWithOutput(print, () => handler(context));
      if (isThenable(returned)) {
        const settle = (outcome: (value: unknown) => HandlerOutcome) => (value: unknown) => {
          call.finish(() => outcome(value));
          settleCall();
        };
        returned.then(settle(read), settle(readThrown));
        return;
      }
      call.finish(() => read(returned));
    } catch (thrown) {
      call.finish(() => readThrown(thrown));
    }
    settleCall();
  }

  /** All that the task refers to, or why it cannot run here. What is leased is neither evicted nor expires while it runs. */
  #leaseResources(attempt: LocalAttempt): readonly KeptResource[] | Fault {
    const refs = attempt.dispatch.resource_refs as readonly DispatchedResourceRef[] | undefined;
    if (refs === undefined || refs.length === 0) return noResources;
    const { resources } = this.#settings;
    const leased: KeptResource[] = [];
    try {
      for (const { resource_id, worker_name, expires_at } of refs) {
        if (worker_name !== resources.settings.workerName)
          throw fault(
            "E.RESOURCE.MISSING",
            `resource ${resource_id} is kept by worker ${worker_name}, but this is worker ${resources.settings.workerName}`,
          );
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

  #cleanUp(attempt: LocalAttempt, context: AttemptContext): void {
    this.#calls.delete(attempt);
    context.killChildProcesses();
    for (const { id } of context.leased) this.#settings.resources.release(id);
    this.#ports.handlerReturned(attempt);
    const dir = context.createdWorkDir;
    if (dir === undefined) return;
    rm(dir, { recursive: true, force: true }).catch((cause: unknown) =>
      this.#ports.reportProblem({ message: `the work directory of task ${attempt.task} could not be removed`, cause }),
    );
  }
}

/** One call of a handler: its outcome is reported once, by the handler or by the timeout. */
class HandlerCall {
  readonly #attempt: LocalAttempt;
  readonly #ports: HandlerExecutorPorts;
  readonly #startedAt: number;
  readonly #mask: SecretMask | null;
  #clearTimer: (() => void) | undefined;
  #isFinished = false;

  constructor(attempt: LocalAttempt, ports: HandlerExecutorPorts, mask: SecretMask | null) {
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

  finish(read: () => HandlerOutcome): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.#clearTimer?.();
    const given = readOutcomeSafely(read);
    const outcome = this.#mask === null ? given : this.#maskSecrets(this.#mask, given);
    if (outcome.type === "error" && outcome.stack !== undefined)
      this.#ports.reportProblem({ message: `the handler of task ${this.#attempt.task} failed`, cause: outcome.stack });
    this.#ports.attemptFinished(this.#attempt, outcome);
  }

  /** Feedback that was held back is sent before the outcome. */
  #maskSecrets(mask: SecretMask, outcome: HandlerOutcome): HandlerOutcome {
    const chunks = mask.takeHeldChunks();
    if (chunks.length > 0) this.#ports.sendFeedback(this.#attempt, { chunks });
    const clean = readOutcomeSafely(() => maskOutcome(mask, outcome));
    if (clean !== outcome && clean.type === "result") {
      const message = `the result of task ${this.#attempt.task} contained one of its secrets, which was replaced by ***`;
      this.#ports.reportProblem({ message, cause: "what a handler returns is stored" });
    }
    return clean;
  }

  #timeOut(timeoutMs: number): void {
    this.#clearTimer = undefined;
    this.fail(fault("E.TIMEOUT", `the task exceeded its time limit of ${timeoutMs} ms`));
  }

  fail({ code, message }: Fault): void {
    if (this.#isFinished) return;
    this.finish(() => errorOutcome(message, "worker.runner", code));
    this.#attempt.stopSignal.stop(new Error(message));
  }
}

/** What a handler returned may run code of its own when it is looked at (getters, proxies). */
function readOutcomeSafely(read: () => HandlerOutcome): HandlerOutcome {
  try {
    return read();
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : "it throws";
    return errorOutcome(`what the handler returned cannot be read: ${reason}`, "worker.runner");
  }
}

const noResources: readonly never[] = [];

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
