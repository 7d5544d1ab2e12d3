// I49: results match the workflow model. In a simulated run without faults and interference every run ends as the model predicts. With faults, a run whose
// outcome does not depend on timing returns exactly the predicted results if it succeeds: lists complete and in order.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { StartRunBody, StartRunGraph, StartRunNode } from "../../checking/requested-runs.ts";
import type { Observation } from "../../observation/observation.ts";
import type { HandlerScript } from "../../plan/handler-script.ts";
import { type ExpectedOutcome, predictOutcomes } from "./workflow-model.ts";

interface RunView {
  readonly runId: string;
  readonly status: string;
  readonly clientId: string;
  readonly repeatOf?: string;
  readonly nodes: readonly {
    readonly nodeId: string;
    readonly taskId: string;
    readonly status: string;
    readonly result?: JsonRecord;
  }[];
}
type JsonRecord = Readonly<Record<string, unknown>>;

const hasEnded = (status: string): boolean => status === "succeeded" || status === "failed" || status === "cancelled";

export class ResultsMatchWorkflowModel extends Checker {
  #faults = 0;

  override onObservation(observation: Observation): void {
    if (observation.kind === "fault") this.#faults++;
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route === "getRun" && call.caller === "auditor" && answer.status === 200)
      this.#check(call.tenant, answer.body as RunView);
  }

  /** What it returns depends on nothing but its parameters: nodes neither fail nor are left out nor give up waiting. */
  #alwaysReturnsTheSame(body: StartRunBody): boolean {
    return allNodesOf(body).every(alwaysSucceeds);
  }

  /** Nothing in it depends on how long something takes. */
  #isTimeIndependent(body: StartRunBody): boolean {
    return body.timeoutMs === undefined && allNodesOf(body).every((node) => !dependsOnTime(node));
  }

  #check(tenant: string, run: RunView): void {
    const requested = this.requestedRuns.find(tenant, run.clientId);
    const projected = this.projection.run(run.runId);
    if (requested === null || projected === undefined || this.world.setup?.profile !== "workflow" || !hasEnded(run.status))
      return;
    // What an operator did, or what was taken over from another run, is not in the drawing.
    if (run.repeatOf !== undefined || projected.facts.some(({ type }) => type.startsWith("audit."))) return;
    // Workers of older dialects know neither chains nor things that are kept: what they run of those ends as if it had withheld the rest.
    if (projected.facts.some(({ type, data }) => type === "task.granted" && this.world.isLegacyWorker(String(data["worker"]))))
      return;
    const isCalm = this.#faults === 0 && this.#isTimeIndependent(requested.body);
    if (!isCalm && !(run.status === "succeeded" && this.#alwaysReturnsTheSame(requested.body))) return;
    const expected = predictOutcomes(requested.body);
    const status = [...expected.values()].some((end) => end === null || end.status === "failed") ? "failed" : "succeeded";
    this.checkedCount++;
    if (run.status !== status)
      return this.reportViolation(`run ${run.runId} is ${run.status} and should be ${status}`, [run.runId]);
    if (status === "failed") return;
    for (const [node, end] of expected) {
      const shown = run.nodes.find(({ nodeId, taskId }) => nodeId === node && /\.\d+$/.test(taskId));
      const problem = shown === undefined || end === null ? "is not shown" : describeDifference(end, shown);
      if (problem !== null) return this.reportViolation(`node ${node} of run ${run.runId} ${problem}`, [run.runId]);
    }
  }
}

function describeDifference(end: ExpectedOutcome, shown: RunView["nodes"][number]): string | null {
  if (shown.status !== end.status) return `is ${shown.status} and should be ${end.status}`;
  const { by: _, kept: _kept, ...result } = shown.result ?? {};
  const [is, should] = [canonicalJson(result), canonicalJson(end.results)];
  return is === should ? null : `returned ${is} and should ${should}`;
}

/** Equal for values that differ only in the order of their keys. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

const allGraphsOf = ({ workflow }: StartRunBody): StartRunGraph[] => [
  workflow,
  ...(workflow.subgraphs ?? []).map(({ definition }) => definition),
];
const allNodesOf = (body: StartRunBody): StartRunNode[] =>
  allGraphsOf(body).flatMap(({ nodes }) => nodes.flatMap((node) => [node, ...(node.middlewares ?? [])]));

const handlerScriptOf = ({ parameters }: StartRunNode): HandlerScript | undefined =>
  parameters?.["sim"] as HandlerScript | undefined;

function alwaysSucceeds(node: StartRunNode): boolean {
  const script = handlerScriptOf(node);
  const isGood =
    script === undefined || script.moods.every(({ kind }) => kind === "quick" || kind === "slow" || kind === "chatty");
  return isGood && script?.wrap?.isForgiving !== true;
}

function dependsOnTime(node: StartRunNode): boolean {
  const { policy = {}, parameters = {} } = node;
  const box = parameters["__container"] as { timeoutSeconds?: number } | undefined;
  const isLimited = policy.timeoutMs !== undefined || policy.queueTimeoutMs !== undefined || box?.timeoutSeconds !== undefined;
  return (
    isLimited ||
    (handlerScriptOf(node)?.wrap?.timeoutMs ?? null) !== null ||
    handlerScriptOf(node)?.moods.some(({ kind }) => kind === "killing") === true
  );
}
