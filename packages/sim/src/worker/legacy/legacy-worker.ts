// The process of a worker of an older dialect: no fences, no list of held attempts, no cancel, no outbox. It runs what it is given, refuses a
// concurrency key that is already running. Its connection is first-generation-link.ts, v1-link.ts or basic-link.ts.

import type { JsonObject } from "@astraflow/protocol";
import { SimulatedHandlers } from "../simulated-handlers.ts";
import type { CommonWorkerOptions } from "../worker-process.ts";
import { BasicLink } from "./basic-link.ts";
import { FirstGenerationLink } from "./first-generation-link.ts";
import type { LegacyFrame, LegacyLink, LegacyLinkOptions } from "./legacy-link.ts";
import { V1Link } from "./v1-link.ts";

export interface LegacyWorkerOptions extends CommonWorkerOptions, Pick<LegacyLinkOptions, "heartbeatMs" | "onUnreadableFrame"> {}

const links = { v1: V1Link, first: FirstGenerationLink, basic: BasicLink };

interface LegacyDispatch {
  readonly run_id: string;
  readonly task_id: string;
  readonly node_id: string;
  readonly node_type: string;
  readonly parameters: JsonObject;
  readonly concurrency_key?: string;
}

export class LegacyWorker {
  readonly handlers: SimulatedHandlers;
  readonly #link: LegacyLink;
  readonly #runningKeys = new Set<string>();
  readonly #fences = new Map<string, number>();

  constructor(options: LegacyWorkerOptions) {
    this.handlers = new SimulatedHandlers({ ...options, fenceOf: (task) => this.#fences.get(task) ?? -1 });
    const link: LegacyLinkOptions = {
      ...options,
      random: options.random.fork("worker"),
      countInFlight: () => this.#runningKeys.size,
      onDispatch: (frame) => void this.#handleDispatch(frame),
    };
    this.#link = new links[options.spec.dialect ?? "first"](link);
  }

  start(): void {
    this.#link.dial();
  }

  /** These dialects have no drain: the worker just disconnects. */
  async stopGracefully(_graceMs: number): Promise<void> {
    this.#link.hangUp();
  }

  async #handleDispatch({ id, seq, payload }: LegacyFrame): Promise<void> {
    const call = payload as unknown as LegacyDispatch;
    const { run_id, task_id, node_id, concurrency_key: key = id } = call;
    const more = { corr: id, ...(seq !== undefined && { seq }), isAsked: true };
    const about = { run_id, task_id, node_id };
    if (this.#runningKeys.has(key)) {
      const context = { where: "worker.concurrency", details: about };
      const violation = { code: "E.CMD.CONCURRENCY_VIOLATION", message: `${key} is running`, context };
      this.#link.sendTaskFrame("biz.exec.error", violation, more);
      return;
    }
    this.#runningKeys.add(key);
    this.#fences.set(task_id, Number(id.split("#")[1]));
    const report = await this.#runHandler(call);
    this.#runningKeys.delete(key);
    if ("code" in report)
      this.#link.sendTaskFrame("biz.exec.error", { ...report, context: { where: "worker.runner", details: about } }, more);
    // A result that cannot be sent is lost, and so is the error report that says so.
    else if (!this.#link.sendTaskFrame("biz.exec.result", { run_id, task_id, ...report, duration_ms: 1 }, more)) {
      const failure = { code: "E.RUNNER.FAILURE", message: "send failed", context: { details: about } };
      this.#link.sendTaskFrame("biz.exec.error", failure, more);
    }
  }

  async #runHandler(call: LegacyDispatch): Promise<{ status: string; result: object } | { code: string; message: string }> {
    const { run_id, task_id, node_id, node_type, parameters } = call;
    const emitText = (text: string): void => {
      const feedback = { run_id, task_id, stage: "running", chunks: [{ channel: "log", text }] };
      this.#link.sendTaskFrame("biz.exec.feedback", feedback, { corr: task_id, isAsked: false });
    };
    try {
      const outcome = (await this.handlers.runHandler({
        runId: run_id,
        taskId: task_id,
        nodeId: node_id,
        nodeType: node_type,
        params: parameters,
        attempt: 1,
        signal: new AbortController().signal,
        feedback: { emitText },
      })) as { status?: string; outputs?: object };
      if (outcome.status === undefined) return { status: "SUCCEEDED", result: outcome };
      return { status: outcome.status.toUpperCase(), result: outcome.outputs ?? {} };
    } catch (problem) {
      return { code: "E.RUNNER.FAILURE", message: problem instanceof Error ? problem.message : String(problem) };
    }
  }
}
