// The handlers of the simulated package: each follows its node's script, by the clock of its process, and records what it does.

import { HandlerRegistry, type LoadedPackages } from "@astraflow/runtime";
import { type HandlerContext, NextError, type NodeHandler } from "@astraflow/sdk";
import type { ObservationTrace } from "../kernel/observation-trace.ts";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { HandlerObservation, SimulatedWorkerIdentity } from "../observation/observation.ts";
import {
  behaviourOfAttempt,
  type HandlerBehaviour,
  type HandlerScript,
  type MiddlewareScript,
  readHandlerScript,
} from "../plan/handler-script.ts";
import { createManifest, expectedNodeValue, simPackage, withMiddlewareTypes } from "../plan/simulated-package.ts";

export interface SimulatedHandlerHost {
  readonly identity: SimulatedWorkerIdentity;
  readonly eventLoop: ProcessEventLoop;
  readonly trace: ObservationTrace;
  fenceOf(task: string): number;
  /** A handler takes its process down. */
  readonly killProcess: () => void;
}

type HandlerLabels = Omit<HandlerObservation, "event" | "detail">;

/** What a handler of this package needs to be told, whoever starts it. */
export type SimulatedHandlerCall = Pick<
  HandlerContext,
  "runId" | "taskId" | "nodeId" | "nodeType" | "params" | "attempt" | "signal"
> & {
  readonly feedback: Pick<HandlerContext["feedback"], "emitText"> & Partial<HandlerContext["feedback"]>;
} & Partial<Pick<HandlerContext, "next" | "resources">>;

/** All handlers of one process; when it dies, they are gone with it. */
export class SimulatedHandlers {
  readonly #host: SimulatedHandlerHost;
  readonly #running = new Set<HandlerLabels>();
  startCount = 0;

  constructor(host: SimulatedHandlerHost) {
    this.#host = host;
  }

  createPackageShelf(types: readonly string[]): LoadedPackages {
    const handlers = new HandlerRegistry();
    const handler: NodeHandler = (context) => this.runHandler(context);
    for (const nodeType of withMiddlewareTypes(types))
      handlers.add({ packageName: simPackage.name, packageVersion: simPackage.version, nodeType }, { handler, config: {} });
    const written = createManifest(types);
    return { packages: [{ ...simPackage, dir: "", manifestJson: written, nodeTypes: [] }], problems: [], handlers };
  }

  /** The process is dead. */
  endAll(): void {
    for (const about of this.#running) this.#record(about, "gone", "process ended");
    this.#running.clear();
  }

  async runHandler(context: SimulatedHandlerCall): Promise<object> {
    const script = readHandlerScript(context.params);
    const behaviour = behaviourOfAttempt(script, context.attempt);
    const about: HandlerLabels = {
      kind: "handler",
      ...this.#host.identity,
      run: context.runId,
      task: context.taskId,
      node: context.nodeId,
      nodeType: context.nodeType,
      fence: this.#host.fenceOf(context.taskId),
      attempt: context.attempt,
      key: script.key,
      limit: script.limit,
    };
    this.startCount++;
    this.#running.add(about);
    this.#record(about, "starts", behaviour.kind);
    const stopSignal = new Promise<void>((resolve) => {
      context.signal.addEventListener("abort", () => {
        if (this.#running.has(about)) this.#record(about, "told");
        resolve();
      });
    });
    await this.#waitAsScripted(context, behaviour, stopSignal);
    const refusal = await callNext(context, behaviour, script.wrap);
    this.#running.delete(about);
    if (context.signal.aborted) this.#record(about, "gone", "stopped");
    else this.#record(about, "ends", refusal === null ? (outcomeNames[behaviour.kind] ?? "done") : "threw");
    if (refusal !== null) throw refusal;
    if (behaviour.kind === "throwing") throw new Error("the handler was scripted to fail");
    if (behaviour.kind === "failing") return { status: "failed", outputs: { error: "the handler was scripted to fail" } };
    if (behaviour.kind === "skipping") return { status: "skipped", outputs: {} };
    return this.#createResult(context, script);
  }

  #createResult(context: SimulatedHandlerCall, { name, keeps }: HandlerScript): object {
    const by = `${context.taskId} by ${this.#host.identity.boot}`;
    if (name === undefined) return { out: by };
    const { index } = context.params;
    const outputs = { out: expectedNodeValue(name, context.params), n: (typeof index === "number" ? index : 0) + 1, by };
    if (keeps !== true || context.resources === undefined) return outputs;
    const resourceId = `kept by ${context.taskId}`;
    const { type } = context.resources.register({ id: resourceId, type: "blob", value: by });
    const artifact = context.resources.artifact(resourceId);
    const keptReference = { resourceRef: { resourceId, workerName: artifact.worker_name, type } };
    return { status: "succeeded", outputs: { ...outputs, kept: keptReference }, artifacts: [artifact] };
  }

  async #waitAsScripted(context: SimulatedHandlerCall, behaviour: HandlerBehaviour, stopSignal: Promise<void>): Promise<void> {
    const { eventLoop } = this.#host;
    if (behaviour.kind === "killing") eventLoop.after(behaviour.ms, () => this.#host.killProcess());
    if (behaviour.kind === "killing" || behaviour.kind === "hanging") return stopSignal;
    const { words = 3 } = behaviour;
    if (behaviour.kind === "chatty")
      for (let part = 1; part <= words; part++)
        eventLoop.after((behaviour.ms * part) / (words + 1), () => this.#sendFeedback(context, part, words));
    if (behaviour.ms <= 0) return;
    const over = new Promise<void>((resolve) => void eventLoop.after(behaviour.ms, resolve));
    await (behaviour.kind === "deaf" ? over : Promise.race([over, stopSignal]));
  }

  #sendFeedback({ feedback, taskId }: SimulatedHandlerCall, part: number, words: number): void {
    const text = `part ${part} of ${taskId}`;
    // Every second feedback has more than text, where the worker supports it.
    if (part % 2 === 1 || feedback.send === undefined) return feedback.emitText(text);
    feedback.send({ progress: part / (words + 1), chunks: [{ channel: "log", text }], metadata: { results: { part } } });
  }

  #record(about: HandlerLabels, event: HandlerObservation["event"], detail?: string): void {
    this.#host.trace.record({ ...about, event, ...(detail !== undefined && { detail }) });
  }
}

/** Calls `next` as often as the script says; returns the error of a failed call that is not forgiven. */
async function callNext(
  context: SimulatedHandlerCall,
  behaviour: HandlerBehaviour,
  middlewareScript: MiddlewareScript | undefined,
): Promise<Error | null> {
  const isGood = ["quick", "slow", "chatty", "deaf"].includes(behaviour.kind);
  if (middlewareScript === undefined || context.next === undefined || !isGood) return null;
  const { calls, mark, timeoutMs, isForgiving } = middlewareScript;
  for (let call = 1; call <= calls && !context.signal.aborted; call++)
    try {
      await context.next(mark === null ? undefined : { [mark]: call }, { call }, undefined, timeoutMs ?? undefined);
    } catch (refusal) {
      // The attempt is over: the signal says so.
      if (context.signal.aborted) return null;
      if (!(refusal instanceof NextError)) throw refusal;
      if (!isForgiving) return refusal;
    }
  return null;
}

const outcomeNames: Partial<Record<HandlerBehaviour["kind"], string>> = {
  failing: "failed",
  throwing: "threw",
  skipping: "skipped",
};
