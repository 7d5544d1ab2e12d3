// I49: results match the workflow model. In a simulated run without faults and interference every run ends as the model predicts. With faults, a run whose
// outcome does not depend on timing returns exactly the predicted results if it succeeds: lists complete and in order.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { containerParameterOf, type StartRunBody, type StartRunNode } from "../../checking/requested-runs.ts";
import { canonicalJson, type ShownNode, type ShownRun } from "../../checking/run-view.ts";
import type { Observation } from "../../observation/observation.ts";
import { type ExpectedOutcome, handlerScriptOf, predictOutcomes } from "./workflow-model.ts";

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
    script === undefined || script.moods.every(({ kind }) => kind === "quick" || kind === "slow" || kind === "chatty");
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
    script?.moods.some(({ kind }) => kind === "killing") === true
  );
}
