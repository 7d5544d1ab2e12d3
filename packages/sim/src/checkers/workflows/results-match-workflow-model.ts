// I49: results match the workflow model. In a simulated run without faults and interference every run ends as the model predicts. With faults, a run whose
// outcome does not depend on timing returns exactly the predicted results if it succeeds: lists complete and in order.
// The model walks over the authored graph, knows no tasks, iterations or calls, and shares no code with the engine.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import {
  containerParameterOf,
  type StartRunBody,
  type StartRunContainer,
  type StartRunGraph,
  type StartRunNode,
} from "../../checking/requested-runs.ts";
import { canonicalJson, type ShownNode, type ShownRun } from "../../checking/run-view.ts";
import type { Observation } from "../../observation/observation.ts";
import { behaviourOfAttempt, type HandlerScript } from "../../plan/handler-script.ts";
import { expectedNodeValue } from "../../plan/simulated-package.ts";

const hasEnded = (status: string): boolean => status === "succeeded" || status === "failed" || status === "cancelled";

export class ResultsMatchWorkflowModel extends Checker {
  #faults = 0;

  override onObservation(observation: Observation): void {
    if (observation.kind === "fault") this.#faults++;
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route === "getRun" && call.caller === "auditor" && answer.status === 200)
      this.#check(call.tenant, answer.body as ShownRun);
  }

  #check(tenant: string, run: ShownRun): void {
    const requested = this.requestedRuns.find(tenant, run.clientId);
    const projected = this.projection.runs.get(run.runId);
    if (requested === null || projected === undefined || this.world.setup?.profile !== "workflow" || !hasEnded(run.status))
      return;
    // What an operator did, or what was taken over from another run, is not in the drawing.
    if (run.repeatOf !== undefined || projected.facts.some(({ type }) => type.startsWith("audit."))) return;
    // Workers of older dialects know neither chains nor things that are kept: what they run of those ends as if it had withheld the rest.
    if (projected.facts.some(({ type, data }) => type === "task.granted" && this.world.isLegacyWorker(String(data["worker"]))))
      return;
    const isCalm = this.#faults === 0 && isTimeIndependent(requested.body);
    if (!isCalm && !(run.status === "succeeded" && allNodesOf(requested.body).every(alwaysSucceeds))) return;
    const expected = predictOutcomes(requested.body);
    const status = [...expected.values()].some((end) => end === null || end.status === "failed") ? "failed" : "succeeded";
    this.checkedCount++;
    if (run.status !== status) return this.fail(`run ${run.runId} is ${run.status} and should be ${status}`, run.runId);
    if (status === "failed") return;
    for (const [node, end] of expected) {
      const shown = run.nodes?.find(({ nodeId, taskId }) => nodeId === node && /\.\d+$/.test(taskId));
      const problem = shown === undefined || end === null ? "is not shown" : describeDifference(end, shown);
      if (problem !== null) return this.fail(`node ${node} of run ${run.runId} ${problem}`, run.runId);
    }
  }
}

function describeDifference(end: ExpectedOutcome, shown: ShownNode): string | null {
  if (shown.status !== end.status) return `is ${shown.status} and should be ${end.status}`;
  const { by: _, kept: _kept, ...result } = (shown.result ?? {}) as Readonly<Record<string, unknown>>;
  const [is, should] = [canonicalJson(result), canonicalJson(end.results)];
  return is === should ? null : `returned ${is} and should ${should}`;
}

function allNodesOf({ workflow }: StartRunBody): StartRunNode[] {
  const graphs = [workflow, ...(workflow.subgraphs ?? []).map(({ definition }) => definition)];
  return graphs.flatMap(({ nodes }) => nodes.flatMap((node) => [node, ...(node.middlewares ?? [])]));
}

/** What it returns depends on nothing but its parameters: it neither fails nor is left out nor gives up waiting. */
function alwaysSucceeds(node: StartRunNode): boolean {
  const script = handlerScriptOf(node);
  const isGood =
    script === undefined || script.behaviours.every(({ kind }) => kind === "quick" || kind === "slow" || kind === "chatty");
  return isGood && script?.wrap?.isForgiving !== true;
}

/** Nothing in it depends on how long something takes. */
const isTimeIndependent = (body: StartRunBody): boolean => body.timeoutMs === undefined && !allNodesOf(body).some(dependsOnTime);

function dependsOnTime(node: StartRunNode): boolean {
  const { timeoutMs, queueTimeoutMs } = node.policy ?? {};
  const script = handlerScriptOf(node);
  return (
    timeoutMs !== undefined ||
    queueTimeoutMs !== undefined ||
    containerParameterOf(node)?.timeoutSeconds !== undefined ||
    (script?.wrap?.timeoutMs ?? null) !== null ||
    script?.behaviours.some(({ kind }) => kind === "killing") === true
  );
}

interface ExpectedOutcome {
  readonly status: "succeeded" | "failed" | "skipped";
  readonly results: JsonRecord;
}

type JsonRecord = Readonly<Record<string, unknown>>;
const failedOutcome: ExpectedOutcome = { status: "failed", results: {} };

/** How each node of the top level ends and what it returns if nothing is lost and nobody interferes, by its id; null for one that is never reached because something before it fails. */
export function predictOutcomes(body: StartRunBody): Map<string, ExpectedOutcome | null> {
  return predictGraph(body.workflow, body.workflow.subgraphs ?? [], () => ({}), body.pins ?? {});
}

type Subgraphs = NonNullable<StartRunGraph["subgraphs"]>;

function predictGraph(
  graph: StartRunGraph,
  subgraphs: Subgraphs,
  given: (node: StartRunNode) => JsonRecord,
  pins: Readonly<Record<string, JsonRecord>>,
): Map<string, ExpectedOutcome | null> {
  const ends = new Map<string, ExpectedOutcome | null>();
  // Edges lead forward, so the order of the drawing will do.
  for (const node of graph.nodes) {
    const edges = graph.edges.filter(({ target }) => target.node === node.id);
    const isReached = edges.every(({ source }) => (ends.get(source.node)?.status ?? "failed") !== "failed");
    const params: Record<string, unknown> = { ...node.parameters, ...given(node) };
    for (const { source, target } of edges) {
      const from = graph.nodes.find(({ id }) => id === source.node)?.ui?.outputPorts?.find(({ key }) => key === source.port);
      const value = ends.get(source.node)?.results[(from?.binding.path ?? "").slice("results.".length)];
      if (value !== undefined) params[target.port] = value;
    }
    const pin = pins[node.id];
    ends.set(
      node.id,
      pin !== undefined ? { status: "succeeded", results: pin } : isReached ? predictNode(node, params, subgraphs) : null,
    );
  }
  return ends;
}

/** A node with the chain around it: it ends as the outermost does, with what its own last good run returned, and what the middlewares write over that. */
function predictNode(node: StartRunNode, params: JsonRecord, subgraphs: Subgraphs): ExpectedOutcome {
  const chain = node.middlewares ?? [];
  if (chain.length === 0) return predictNodeWithoutMiddlewares(node, params, subgraphs);
  let host: JsonRecord = {};
  let isCalled = false;
  let isSkipped = false;
  const written = new Map<number, unknown>();
  /** One call of the chain from a place on. */
  const call = (at: number, payload: JsonRecord): ExpectedOutcome["status"] => {
    const middleware = chain[at];
    if (middleware === undefined) {
      const end = predictNodeWithoutMiddlewares(node, { ...params, ...payload }, subgraphs);
      isCalled = true;
      if (end.status === "succeeded") [host, isSkipped] = [end.results, false];
      return end.status;
    }
    const { wrap, name = "" } = handlerScriptOf(middleware) ?? {};
    const { calls = 0, mark = null, isForgiving = false } = wrap ?? {};
    const end = predictAttempts(middleware, () => {
      for (let number = 1; number <= calls; number++) {
        const status = call(at + 1, mark === null ? {} : { [mark]: number });
        if (status !== "succeeded" && !isForgiving) return false;
      }
      return true;
    });
    if (end === "skipped" && at > 0) isSkipped = true;
    if (end === "succeeded") written.set(at, expectedNodeValue(name, { ...middleware.parameters, ...payload }));
    return end;
  };
  const end = call(0, {});
  if (end === "failed") return failedOutcome;
  let results = host;
  for (const at of [...chain.keys()].toReversed())
    if (written.has(at) && (chain[at]?.ui?.outputPorts ?? []).length > 0) results = { ...results, out: written.get(at) };
  return { status: end === "skipped" || isSkipped || !isCalled ? "skipped" : "succeeded", results };
}

/** Containers have none. */
const handlerScriptOf = ({ parameters }: StartRunNode) => parameters?.["sim"] as HandlerScript | undefined;

/** Tries as often as the node may be tried. `work`: what a good mood does; false fails the attempt. */
function predictAttempts(node: StartRunNode, work: () => boolean): ExpectedOutcome["status"] {
  for (let number = 1; number <= (node.policy?.retry?.maxAttempts ?? 1); number++) {
    const { kind } = behaviourOfAttempt(handlerScriptOf(node) as HandlerScript, number);
    if (kind === "skipping") return "skipped";
    if (kind !== "throwing" && kind !== "failing" && work()) return "succeeded";
  }
  return "failed";
}

function predictNodeWithoutMiddlewares(node: StartRunNode, params: JsonRecord, subgraphs: Subgraphs): ExpectedOutcome {
  const container = containerParameterOf(node);
  if (container !== null) return predictContainer(container, params, subgraphs);
  const status = predictAttempts(node, () => true);
  if (status !== "succeeded") return { status, results: {} };
  const index = typeof params["index"] === "number" ? params["index"] : 0;
  return { status, results: { out: expectedNodeValue(handlerScriptOf(node)?.name ?? "", params), n: index + 1 } };
}

/** Of a while loop that names no bound. */
const iterationsMax = 100;

function predictContainer(container: StartRunContainer, params: JsonRecord, subgraphs: Subgraphs): ExpectedOutcome {
  const { loop } = container;
  const items = typeof loop?.items === "string" ? (params["list"] as readonly unknown[]) : (loop?.items ?? []);
  const all: JsonRecord[] = [];
  const continues = (index: number): boolean =>
    loop === undefined || loop.mode === "while" ? index === 0 || continuesLoop(container, all) : index < items.length;
  for (let index = 0; continues(index); index++) {
    // A condition that stays true ends the container by its bound.
    if (loop?.mode === "while" && index >= (loop.maxIterations ?? iterationsMax)) return failedOutcome;
    const last = loop?.mode === "map" ? {} : (all.at(-1) ?? {});
    const outputs = predictIteration(container, subgraphs, { parameters: params, item: items[index], index, last });
    if (outputs === null) return failedOutcome;
    all.push(outputs);
  }
  if (loop === undefined) return { status: "succeeded", results: all[0] ?? {} };
  const results = loop.mode === "while" ? { ...all.at(-1), iterations: all.length } : { items: all, count: all.length };
  return { status: "succeeded", results };
}

const continuesLoop = ({ loop }: StartRunContainer, all: readonly JsonRecord[]): boolean => {
  const value = all.at(-1)?.[loop?.condition?.path ?? ""];
  return loop?.mode === "while" && typeof value === "number" && value < Number(loop.condition?.value);
};

/** The outputs of one iteration; null where it fails. A try again comes to the same: nothing that is drawn depends on it. */
function predictIteration(container: StartRunContainer, subgraphs: Subgraphs, frame: JsonRecord): JsonRecord | null {
  const body = subgraphs.find(({ id }) => id === container.subgraphId)?.definition;
  if (body === undefined) return null;
  const given = (node: StartRunNode): JsonRecord => {
    const values: Record<string, unknown> = {};
    for (const { from, node: id, to } of container.inputs ?? []) {
      const value =
        id === node.id ? from.split(".").reduce<unknown>((at, step) => (at as JsonRecord | undefined)?.[step], frame) : undefined;
      if (value !== undefined) values[to.slice("parameters.".length)] = value;
    }
    return values;
  };
  const ends = predictGraph(body, subgraphs, given, {});
  if ([...ends.values()].some((end) => end === null || end.status === "failed")) return null;
  const outputs: Record<string, unknown> = {};
  for (const { node, from, to } of container.outputs ?? []) {
    const value = ends.get(node)?.results[from.slice("results.".length)];
    if (value !== undefined) outputs[to.slice("results.".length)] = value;
  }
  return outputs;
}
