// The process of a worker of an older dialect: no fences, no inventory, no stop, no outbox. It takes what it is given, refuses a concurrency
// key that it still holds, and forgets what it could not say. How it says it is first-link.ts and v1-link.ts.

import type { JsonObject } from "@astraflow/protocol";
import type { Dice } from "./dice.ts";
import type { FirstFrame } from "./first-fields.ts";
import { FirstLink } from "./first-link.ts";
import { manifestOf, Troupe } from "./handlers.ts";
import type { Life } from "./life.ts";
import type { Network } from "./network.ts";
import type { WorkerFace, WorkerShape } from "./observation.ts";
import type { Trace } from "./trace.ts";
import { V1Link } from "./v1-link.ts";

/** What the wire of such a worker is given. */
export interface OlderLinkOptions {
  readonly face: WorkerFace;
  readonly life: Life;
  readonly network: Network;
  readonly roll: () => number;
  readonly choose: () => string;
  /** About so long between two heartbeats, and before the first. */
  readonly beatMs: number;
  readonly concurrency: { readonly max_parallel: number; readonly per_node_limits?: Readonly<Record<string, number>> };
  readonly manifest: object;
  readonly inflight: () => number;
  readonly dispatch: (frame: FirstFrame) => void;
  /** The scheduler sent what such workers cannot read. */
  readonly disliked: (problem: string) => void;
  /** The process ends itself. */
  readonly exit: () => void;
}

/** Its wire. */
export interface OlderLink {
  readonly isReady: boolean;
  dial(): void;
  hangUp(): void;
  /** False where it could not leave and is lost. */
  say(type: string, payload: object, more: { readonly corr?: string; readonly seq?: number; readonly isAsked: boolean }): boolean;
}

export interface OlderWorkerOptions {
  readonly shape: WorkerShape;
  readonly face: WorkerFace;
  readonly life: Life;
  readonly trace: Trace;
  readonly dice: Dice;
  readonly network: Network;
  readonly beatMs: number;
  readonly choose: (last: string | null) => string;
  readonly kill: () => void;
  readonly disliked: (problem: string) => void;
}

interface Order {
  readonly run_id: string;
  readonly task_id: string;
  readonly node_id: string;
  readonly node_type: string;
  readonly parameters: JsonObject;
  readonly concurrency_key?: string;
}

export class OlderWorker {
  readonly troupe: Troupe;
  readonly #link: OlderLink;
  readonly #keys = new Set<string>();
  readonly #fences = new Map<string, number>();

  constructor(options: OlderWorkerOptions) {
    const { shape, face, life, trace, dice, network } = options;
    const rolls = dice.fork("worker");
    this.troupe = new Troupe({ face, life, trace, kill: options.kill, fenceOf: (task) => this.#fences.get(task) ?? -1 });
    const link: OlderLinkOptions = {
      face,
      life,
      network,
      roll: () => rolls.roll(),
      choose: () => options.choose(null),
      beatMs: options.beatMs,
      concurrency: {
        max_parallel: shape.slots,
        ...(shape.perNodeLimits !== undefined && { per_node_limits: shape.perNodeLimits }),
      },
      manifest: manifestOf(shape.nodeTypes),
      inflight: () => this.#keys.size,
      dispatch: (frame) => void this.#run(frame),
      disliked: options.disliked,
      exit: options.kill,
    };
    this.#link = shape.dialect === "v1" ? new V1Link(link) : new FirstLink(link);
  }

  begin(): void {
    this.#link.dial();
  }

  /** It knows no drain: it goes. */
  async leave(_graceMs: number): Promise<void> {
    this.#link.hangUp();
  }

  get phase(): string {
    return this.#link.isReady ? "READY" : "NEW";
  }

  async #run({ id, seq, payload }: FirstFrame): Promise<void> {
    const order = payload as unknown as Order;
    const { run_id, task_id, node_id, concurrency_key: key = id } = order;
    const more = { corr: id, ...(seq !== undefined && { seq }), isAsked: true };
    const about = { run_id, task_id, node_id };
    if (this.#keys.has(key)) {
      const context = { where: "worker.concurrency", details: about };
      this.#link.say("biz.exec.error", { code: "E.CMD.CONCURRENCY_VIOLATION", message: `${key} is running`, context }, more);
      return;
    }
    this.#keys.add(key);
    this.#fences.set(task_id, Number(id.split("#")[1]));
    const said = await this.#play(order);
    this.#keys.delete(key);
    if ("code" in said) this.#link.say("biz.exec.error", { ...said, context: { where: "worker.runner", details: about } }, more);
    // What cannot be said now is lost, and so is the word that it failed.
    else if (!this.#link.say("biz.exec.result", { run_id, task_id, ...said, duration_ms: 1 }, more))
      this.#link.say("biz.exec.error", { code: "E.RUNNER.FAILURE", message: "send failed", context: { details: about } }, more);
  }

  async #play(order: Order): Promise<{ status: string; result: object } | { code: string; message: string }> {
    const { run_id, task_id, node_id, node_type, parameters } = order;
    const emitText = (text: string): void => {
      const chunks = [{ channel: "log", text }];
      this.#link.say("biz.exec.feedback", { run_id, task_id, stage: "running", chunks }, { corr: task_id, isAsked: false });
    };
    try {
      const outcome = (await this.troupe.play({
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
