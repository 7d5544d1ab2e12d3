// I5: a task and a run end once; successors of an ended task start once and in order; and an Idempotency-Key stands for one run.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { hasEndedWell, type ProjectedRun } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { nodeOfTask, nodesOfScope, parseTaskId, taskIdOf } from "../../checking/requested-runs.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { Observation } from "../../observation/observation.ts";

export class RunsAndTasksEndOnce extends Checker {
  readonly #runOfKey = new Map<string, string>();
  readonly #runsOfClient = new Map<string, Set<string>>();
  /** Retry requests by run: each retry of an ended run may have become a new run of the same client. */
  readonly #again = new Map<string, number>();

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route !== "startRun" || answer.status !== 202 || call.idempotencyKey === null) return;
    const { runId } = answer.body as { runId: string };
    const key = `${call.tenant}/${call.idempotencyKey}`;
    const first = getOrCreate(this.#runOfKey, key, () => runId);
    this.checkedCount++;
    if (first !== runId) this.fail(`key ${key} gave run ${first} and then run ${runId}`, first, runId);
  }

  override onObservation(observation: Observation): void {
    if (observation.kind !== "call" || observation.route !== "retryNode") return;
    const run = observation.params["runId"] ?? "";
    this.#again.set(run, (this.#again.get(run) ?? 0) + 1);
  }

  override onFact(fact: ObservedFact): void {
    const { run: id, type, tenant, data } = fact;
    if (id === null) return;
    const run = this.projection.runs.get(id);
    this.checkedCount++;
    if (type === "run.created") {
      if (run !== undefined) return this.fail(`run ${id} was created twice, at position ${fact.position} of ${tenant}`, id);
      const client = String(data["client"]);
      const runs = getOrCreate(this.#runsOfClient, `${tenant}/${client}`, () => new Set<string>()).add(id);
      const asks = [...runs].reduce(
        (sum, one) => sum + (this.#again.get(one) ?? 0),
        this.requestedRuns.countRunsMax(tenant, client),
      );
      if (runs.size > asks) this.fail(`${asks} start requests of client ${client} became ${runs.size} runs`, ...runs);
      return;
    }
    if (run === undefined) return this.fail(`a fact of run ${id} precedes its creation, at position ${fact.position}`, id);
    // Audit entries, late outcomes and removed artifacts may follow the end of a run.
    if (type.startsWith("audit.") || type === "artifact.removed" || type === "task.refused") return;
    if (type === "task.feedback" && data["isLate"] === true) return this.#checkLateFact(run, fact);
    if (run.endStatus !== null)
      return this.fail(`${type} at position ${fact.position}: run ${id} had ended (${run.endStatus})`, id);
    if (type.startsWith("task.") && type !== "task.feedback") this.#checkTask(run, fact);
    if (type === "run.succeeded" || type === "run.failed" || type === "run.cancelled") this.#checkRunEnd(run, fact);
  }

  #checkTask(run: ProjectedRun, { type, task: id, where }: ObservedFact): void {
    const task = run.tasks.get(id);
    if (task !== undefined && task.endStatus !== null)
      return this.fail(`${where}: ${id} had ended already (${task.endStatus})`, id);
    if (type !== "task.granted" && type !== "task.ready" && type !== "task.hosting") return;
    const node = nodeOfTask(run.requested, id);
    if (run.requested !== null && node === null) return this.fail(`${where}: ${id} is no node of its run`, id);
    for (const before of node?.before ?? []) {
      const end = run.tasks.get(taskIdOf(run.id, parseTaskId(id).scope, before))?.endStatus;
      if (!hasEndedWell(end))
        return this.fail(`${where}: ${id} starts although node ${before} before it is ${end ?? "open"}`, id);
    }
  }

  /** Only feedback that the result overtook may follow the end of its task. */
  #checkLateFact(run: ProjectedRun, { position, task: id }: ObservedFact): void {
    if ((run.tasks.get(id)?.endStatus ?? null) === null)
      this.fail(`position ${position}: feedback of ${id} is marked late, and the task has not ended`, id);
  }

  #checkRunEnd(run: ProjectedRun, { type, where }: ObservedFact): void {
    for (const task of run.tasks.values())
      if (task.endStatus === null) return this.fail(`${where}: ${task.id} of run ${run.id} had not ended`, task.id);
    if (type !== "run.succeeded" || run.requested === null) return;
    // Middlewares are checked with their chain.
    for (const { ordinal } of (nodesOfScope(run.requested, "") ?? []).filter(({ host }) => host === null)) {
      const end = run.tasks.get(`${run.id}.${ordinal}`)?.endStatus;
      if (!hasEndedWell(end)) return this.fail(`${where}: node ${ordinal} of run ${run.id} is ${end ?? "untouched"}`, run.id);
    }
  }
}
