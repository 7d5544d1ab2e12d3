// What tests of middleware chains share: hosts with middlewares around them, and what a middleware says to its scheduler.

import type { AnswerBody, Command, SendDispatch, SendNextAnswer, TaskRow } from "@astraflow/engine";
import { readTaskState } from "@astraflow/engine";
import { type Crew, graph, type Harness, type Node, nodeId } from "./harness.ts";

export interface Layer extends Node {
  /** Where its output port reads. */
  readonly output?: string;
}

export const middlewareId = (host: number, index: number): string => nodeId(100 + host * 10 + index);

/** Nodes in a row; the host `at` has these middlewares around it, outermost first. */
export function hosted(
  layers: readonly Layer[],
  options: { length?: number; at?: number; host?: Node } = {},
): Record<string, unknown> {
  const { length = 1, at = 0, host = {} } = options;
  const nodes = Array.from({ length }, (_, ordinal) => (ordinal === at ? host : {}));
  const drawn = graph(
    nodes,
    nodes.slice(1).map((_, ordinal) => [ordinal, ordinal + 1] as const),
  );
  return wrapped(drawn, at, layers);
}

/** The graph with middlewares around one of its nodes. */
export function wrapped(drawn: Record<string, unknown>, at: number, layers: readonly Layer[]): Record<string, unknown> {
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
  const nodes = drawn.nodes as readonly object[];
  return { ...drawn, nodes: nodes.map((node, ordinal) => (ordinal === at ? { ...node, middlewares } : node)) };
}

export interface NextOptions {
  readonly payload?: object;
  readonly hostCtx?: object;
  readonly middlewareCtx?: object;
  readonly timeoutMs?: number;
}

type Attempt = Pick<SendDispatch["dispatch"], "task" | "fence">;

export function nextCommand(crew: Crew, attempt: Attempt, request: string, options: NextOptions = {}): Command {
  const text = (value: object | undefined): string | null => (value === undefined ? null : JSON.stringify(value));
  return {
    type: "task.next",
    tenant: crew.tenant,
    worker: crew.worker,
    session: crew.session,
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
export async function next(crew: Crew, attempt: Attempt, request: string, options?: NextOptions): Promise<AnswerBody> {
  const answer = await crew.harness.ask(nextCommand(crew, attempt, request, options));
  await crew.harness.settle();
  return answer;
}

export async function begin(world: Harness, workflow: Record<string, unknown>): Promise<string> {
  const run = await world.run(workflow);
  await world.settle();
  return run;
}

export const answers = (world: Harness): SendNextAnswer[] =>
  world.effects.filter((effect): effect is SendNextAnswer => effect.type === "next");

/** Phase of every task of a run, by slot. */
export async function phases(world: Harness, run: string): Promise<Record<string, string>> {
  const { tasks } = await world.detail(run);
  return Object.fromEntries(tasks.map((task) => [task.id.slice(run.length + 1), task.phase]));
}

export async function taskAt(world: Harness, run: string, slot: string): Promise<TaskRow> {
  const { tasks } = await world.detail(run);
  const found = tasks.find((task) => task.id === `${run}.${slot}`);
  if (found === undefined) throw new Error(`${run} has no ${slot}; it has ${tasks.map((task) => task.id).join(" ")}`);
  return found;
}

/** The dispatch of a slot that a session got last. */
export function sentFor(crew: Crew, slot: string): SendDispatch["dispatch"] {
  const found = crew.sent.filter((one) => one.task.endsWith(`.${slot}`)).at(-1);
  if (found === undefined)
    throw new Error(`${crew.worker} was not sent ${slot}, but ${crew.sent.map((one) => one.task).join(" ")}`);
  return found;
}

export const openCallsOf = (task: TaskRow) => (readTaskState(task).calls ?? []).filter((call) => call.answer === undefined);
