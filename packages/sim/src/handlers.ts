// The handlers of the simulated package: each does what its node's mood says, by the clock of its process, and is seen doing it.

import { type JsonObject, readManifest } from "@astraflow/protocol";
import { type HandlerContext, HandlerRegistry, type LoadedPackages, NextError, type NodeHandler } from "@astraflow/runtime";
import type { Life } from "./life.ts";
import { type Mood, type MoodSheet, moodOf, readMood, type Wrap } from "./mood.ts";
import type { HandlerSeen, WorkerFace } from "./observation.ts";
import type { Trace } from "./trace.ts";
import { valueOf } from "./value.ts";

export const simPackage = { name: "sim", version: "1.0.0" } as const;
export const nodeTypes = ["sim.step", "sim.heavy", "sim.light"] as const;
/** What stands around a node is of a type of its own, as the catalogue wants it. */
export const aroundType = (nodeType: string): string => `${nodeType}-around`;
const withAround = (types: readonly string[]): string[] => [...types, ...types.map(aroundType)];

export interface Stage {
  readonly face: WorkerFace;
  readonly life: Life;
  readonly trace: Trace;
  fenceOf(task: string, attempt: number): number;
  /** A handler takes its process down. */
  kill(): void;
}

type About = Omit<HandlerSeen, "event" | "detail">;

/** What a handler of this package needs to be told, whoever starts it. */
export type Part = Pick<HandlerContext, "runId" | "taskId" | "nodeId" | "nodeType" | "params" | "attempt" | "signal"> & {
  readonly feedback: Pick<HandlerContext["feedback"], "emitText"> & Partial<HandlerContext["feedback"]>;
} & Partial<Pick<HandlerContext, "next" | "resources">>;

/** All handlers of one process; when it dies, they are gone with it. */
export class Troupe {
  readonly #stage: Stage;
  readonly #playing = new Set<About>();
  #starts = 0;

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  get starts(): number {
    return this.#starts;
  }

  shelf(types: readonly string[]): LoadedPackages {
    const handlers = new HandlerRegistry();
    const handler: NodeHandler = (context) => this.play(context);
    for (const nodeType of withAround(types))
      handlers.add({ packageName: simPackage.name, packageVersion: simPackage.version, nodeType }, { handler, config: {} });
    const written = manifestOf(types);
    const manifest = readManifest(written);
    if (manifest instanceof Error) throw manifest;
    return { packages: [{ ...simPackage, dir: "", manifestJson: written, manifest, handlers: [] }], problems: [], handlers };
  }

  /** The process is dead. */
  end(): void {
    for (const about of this.#playing) this.#see(about, "gone", "process ended");
    this.#playing.clear();
  }

  async play(context: Part): Promise<object> {
    const sheet = readMood(context.params);
    const mood = moodOf(sheet, context.attempt);
    const about: About = {
      kind: "handler",
      ...this.#stage.face,
      run: context.runId,
      task: context.taskId,
      node: context.nodeId,
      nodeType: context.nodeType,
      fence: this.#stage.fenceOf(context.taskId, context.attempt),
      attempt: context.attempt,
      key: sheet.key,
      limit: sheet.limit,
    };
    this.#starts++;
    this.#playing.add(about);
    this.#see(about, "starts", mood.kind);
    const told = new Promise<void>((resolve) => {
      context.signal.addEventListener("abort", () => {
        if (this.#playing.has(about)) this.#see(about, "told");
        resolve();
      });
    });
    await this.#pass(context, mood, told);
    const refusal = await askNext(context, mood, sheet.wrap);
    this.#playing.delete(about);
    if (context.signal.aborted) this.#see(about, "gone", "stopped");
    else this.#see(about, "ends", refusal === null ? (outcomeNames[mood.kind] ?? "done") : "threw");
    if (refusal !== null) throw refusal;
    if (mood.kind === "throwing") throw new Error("the mood was bad");
    if (mood.kind === "failing") return { status: "failed", outputs: { error: "the mood was bad" } };
    if (mood.kind === "skipping") return { status: "skipped", outputs: {} };
    return this.#result(context, sheet);
  }

  #result(context: Part, { name, keeps }: MoodSheet): object {
    const by = `${context.taskId} by ${this.#stage.face.boot}`;
    if (name === undefined) return { out: by };
    const { index } = context.params;
    const outputs = { out: valueOf(name, context.params), n: (typeof index === "number" ? index : 0) + 1, by };
    if (keeps !== true || context.resources === undefined) return outputs;
    const resourceId = `kept by ${context.taskId}`;
    const { type } = context.resources.register({ id: resourceId, type: "blob", value: by });
    const artifact = context.resources.artifact(resourceId);
    const kept = { resourceRef: { resourceId, workerName: artifact.worker_name, type } };
    return { status: "succeeded", outputs: { ...outputs, kept }, artifacts: [artifact] };
  }

  async #pass(context: Part, mood: Mood, told: Promise<void>): Promise<void> {
    const { life } = this.#stage;
    if (mood.kind === "killing") life.after(mood.ms, () => this.#stage.kill());
    if (mood.kind === "killing" || mood.kind === "hanging") return told;
    const { words = 3 } = mood;
    if (mood.kind === "chatty")
      for (let part = 1; part <= words; part++)
        life.after((mood.ms * part) / (words + 1), () => this.#speak(context, part, words));
    if (mood.ms <= 0) return;
    const over = new Promise<void>((resolve) => void life.after(mood.ms, resolve));
    await (mood.kind === "deaf" ? over : Promise.race([over, told]));
  }

  #speak({ feedback, taskId }: Part, part: number, words: number): void {
    const text = `part ${part} of ${taskId}`;
    // Every second word says more than text, where the worker can.
    if (part % 2 === 1 || feedback.send === undefined) return feedback.emitText(text);
    feedback.send({ progress: part / (words + 1), chunks: [{ channel: "log", text }], metadata: { results: { part } } });
  }

  #see(about: About, event: HandlerSeen["event"], detail?: string): void {
    this.#stage.trace.see({ ...about, event, ...(detail !== undefined && { detail }) });
  }
}

/** A middleware runs what comes next as often as its sheet says. What the last refused call ended with, where that is not forgiven. */
async function askNext(context: Part, mood: Mood, wrap: Wrap | undefined): Promise<Error | null> {
  const isGood = mood.kind === "quick" || mood.kind === "slow" || mood.kind === "chatty" || mood.kind === "deaf";
  if (wrap === undefined || context.next === undefined || !isGood) return null;
  for (let call = 1; call <= wrap.calls && !context.signal.aborted; call++)
    try {
      const payload = wrap.mark === null ? undefined : { [wrap.mark]: call };
      await context.next(payload, { call }, undefined, wrap.timeoutMs ?? undefined);
    } catch (refusal) {
      // The attempt is over: whoever asked hears so by the signal.
      if (context.signal.aborted) return null;
      if (!(refusal instanceof NextError)) throw refusal;
      if (!wrap.isForgiving) return refusal;
    }
  return null;
}

const outcomeNames: Partial<Record<Mood["kind"], string>> = { failing: "failed", throwing: "threw", skipping: "skipped" };

export function manifestOf(types: readonly string[]): JsonObject {
  return {
    schemaVersion: "1.0.0",
    description: "Does what the mood of its node says.",
    ...simPackage,
    adapters: [{ name: "main", entrypoint: "main.ts:main", capabilities: withAround(types) }],
    node: { requires: ">=22", lockfile: "package-lock.json" },
    nodes: withAround(types).map((type) => ({
      type,
      ...(!types.includes(type) && { role: "middleware" }),
      status: "published",
      category: "sim",
      label: type,
      adapter: "main",
      handler: "play",
      schema: { parameters: { type: "object" }, results: { type: "object" } },
    })),
  };
}
