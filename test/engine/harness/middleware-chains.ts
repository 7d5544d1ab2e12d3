// Shared by tests of middleware chains: hosts with middlewares, and the messages a middleware sends to its scheduler.

import type { AnswerBody, Command, SendDispatch, SendNextAnswer, TaskRow } from "@astraflow/engine";
import { readTaskState } from "@astraflow/engine";
import { buildWorkflow, type EngineHarness, type NodeSpec, nodeId, type TestWorker } from "./engine-harness.ts";

export interface MiddlewareSpec extends NodeSpec {
  /** Where its output port reads. */
  readonly output?: string;
}

export const middlewareId = (host: number, index: number): string => nodeId(100 + host * 10 + index);

/** Nodes in a row; the host `at` has these middlewares around it, outermost first. */
export function buildHostWithMiddlewares(
  layers: readonly MiddlewareSpec[],
  options: { length?: number; at?: number; host?: NodeSpec } = {},
): Record<string, unknown> {
  const { length = 1, at = 0, host = {} } = options;
  const nodes = Array.from({ length }, (_, ordinal) => (ordinal === at ? host : {}));
  const workflow = buildWorkflow(
    nodes,
    nodes.slice(1).map((_, ordinal) => [ordinal, ordinal + 1] as const),
  );
  return addMiddlewares(workflow, at, layers);
}

/** The graph with middlewares around one of its nodes. */
export function addMiddlewares(
  workflow: Record<string, unknown>,
  at: number,
  layers: readonly MiddlewareSpec[],
): Record<string, unknown> {
  const middlewares = layers.map((layer, index) => ({
    id: middlewareId(at, index),
    type: layer.type ?? "test.wrap",
    package: { name: "test", version: "1.0.0" },
    label: `layer ${index}`,
    role: "middleware",
    parameters: layer.params ?? {},
    ...(layer.policy === undefined ? {} : { policy: layer.policy }),
    ui: {
      inputPorts: [],
      outputPorts:
        layer.output === undefined ? [] : [{ key: "out", label: "out", binding: { path: layer.output, mode: "read" } }],
    },
  }));
  const nodes = workflow.nodes as readonly object[];
  return { ...workflow, nodes: nodes.map((node, ordinal) => (ordinal === at ? { ...node, middlewares } : node)) };
}

export interface NextOptions {
  readonly payload?: object;
  readonly hostCtx?: object;
  readonly middlewareCtx?: object;
  readonly timeoutMs?: number;
}

type DispatchedAttempt = Pick<SendDispatch["dispatch"], "task" | "fence">;

export function nextCommand(worker: TestWorker, attempt: DispatchedAttempt, request: string, options: NextOptions = {}): Command {
  const text = (value: object | undefined): string | null => (value === undefined ? null : JSON.stringify(value));
  return {
    type: "task.next",
    tenant: worker.tenant,
    worker: worker.worker,
    session: worker.session,
    task: attempt.task,
    fence: attempt.fence,
    request,
    payload: text(options.payload),
    hostCtx: text(options.hostCtx),
    middlewareCtx: text(options.middlewareCtx),
    timeoutMs: options.timeoutMs ?? null,
  };
}

/** Asks, and lets the engine do all that follows: a route that is met for the first time is served a turn later. */
export async function callNext(
  worker: TestWorker,
  attempt: DispatchedAttempt,
  request: string,
  options?: NextOptions,
): Promise<AnswerBody> {
  const answer = await worker.harness.ask(nextCommand(worker, attempt, request, options));
  await worker.harness.settle();
  return answer;
}

export async function startAndSettle(harness: EngineHarness, workflow: Record<string, unknown>): Promise<string> {
  const run = await harness.startRun(workflow);
  await harness.settle();
  return run;
}

export const nextAnswers = (harness: EngineHarness): SendNextAnswer[] =>
  harness.effects.filter((effect): effect is SendNextAnswer => effect.type === "next");

/** Phase of every task of a run, by slot. */
export async function taskPhasesBySlot(harness: EngineHarness, run: string): Promise<Record<string, string>> {
  const { tasks } = await harness.runDetail(run);
  return Object.fromEntries(tasks.map((task) => [task.id.slice(run.length + 1), task.phase]));
}

export async function findTaskAt(harness: EngineHarness, run: string, slot: string): Promise<TaskRow> {
  const { tasks } = await harness.runDetail(run);
  const found = tasks.find((task) => task.id === `${run}.${slot}`);
  if (found === undefined) throw new Error(`${run} has no ${slot}; it has ${tasks.map((task) => task.id).join(" ")}`);
  return found;
}

/** The dispatch of a slot that a session got last. */
export function lastDispatchFor(worker: TestWorker, slot: string): SendDispatch["dispatch"] {
  const found = worker.dispatchesSent.filter((one) => one.task.endsWith(`.${slot}`)).at(-1);
  if (found === undefined)
    throw new Error(`${worker.worker} was not sent ${slot}, but ${worker.dispatchesSent.map((one) => one.task).join(" ")}`);
  return found;
}

export const openCallsOf = (task: TaskRow) => (readTaskState(task).calls ?? []).filter((call) => call.answer === undefined);
