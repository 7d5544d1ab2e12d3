// I43: a container runs its body once for each iteration and ends when all of them are done. Iterations are numbered as they are opened; a list is
// processed in order and with limited parallelism; no task inside an iteration changes before it is opened or after it has ended; an iteration
// succeeds only when everything inside has, and its container only with one succeeded attempt for each iteration.

import { Checker } from "../../checking/checker.ts";
import { changesTaskPhase, hasEndedWell, type ProjectedRun } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { nodeOfTask, nodesOfScope, parseTaskId, type RequestedNode, taskIdOf } from "../../checking/requested-runs.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";

interface ObservedIteration {
  readonly index: number;
  status: string | null;
}

export class ContainerIterationsAreComplete extends Checker {
  /** By container, in the order of their numbers. */
  readonly #iterationsOf = new Map<string, ObservedIteration[]>();

  override onFact(fact: ObservedFact): void {
    const run = fact.run === null ? undefined : this.projection.runs.get(fact.run);
    const { task } = fact.data;
    if (run === undefined || typeof task !== "string" || !changesTaskPhase(fact.type)) return;
    if (fact.type === "frame.opened") this.#open(run, task, fact);
    if (fact.type === "frame.ended") return this.#end(run, task, fact);
    this.#checkAround(run, task, fact);
    const node = nodeOfTask(run.requested, task);
    const isContainer = node !== null && node.container !== null && (node.chain.length === 0 || parseTaskId(task).call !== null);
    if (isContainer && /^task\.(succeeded|failed|skipped)$/.test(fact.type)) this.#checkContainer(run, task, node, fact);
  }

  #open(run: ProjectedRun, frame: string, { data, position }: ObservedFact): void {
    const container = frame.slice(0, frame.lastIndexOf("*"));
    const all = getOrCreate(this.#iterationsOf, container, () => []);
    const { iteration: number } = parseTaskId(frame);
    const index = Number(data["index"]);
    const where = `frame.opened at position ${position}: ${frame}`;
    const projected = run.tasks.get(container);
    this.checkedCount++;
    if (projected?.isHosting !== true)
      return this.fail(`${where}, and its container is ${projected?.endStatus ?? "not under way"}`, container);
    if (number !== all.length) return this.fail(`${where} follows ${all.length} iterations`, container);
    const again = all.filter((one) => one.index === index);
    if (again.some(({ status }) => status === null || status === "succeeded"))
      return this.fail(`${where} is another try of iteration ${index}, which has not failed`, container);
    all.push({ index, status: null });
    const requested = nodeOfTask(run.requested, frame)?.container ?? null;
    if (requested === null) return;
    const { maxAttempts, parallelism, mode } = requested;
    if (again.length >= maxAttempts)
      return this.fail(`${where} is try ${again.length + 1} of iteration ${index}, ${maxAttempts} allowed`, container);
    const unended = all.filter(({ status }) => status === null).length;
    if (unended > parallelism) return this.fail(`${where} makes ${unended} open iterations, ${parallelism} allowed`, container);
    const isInTurn = index === 0 || all.some((one) => one.index === index - 1 && one.status === "succeeded");
    if ((mode === "forEach" || mode === "while") && !isInTurn)
      this.fail(`${where} is iteration ${index}, and the one before it has not succeeded`, container);
  }

  #end(run: ProjectedRun, frame: string, { data, position }: ObservedFact): void {
    const { iteration: number } = parseTaskId(frame);
    const one = this.#iterationsOf.get(frame.slice(0, frame.lastIndexOf("*")))?.[number ?? -1];
    const where = `frame.ended at position ${position}: ${frame}`;
    const status = String(data["status"]);
    this.checkedCount++;
    if (one === undefined || one.status !== null) return this.fail(`${where} was ${one?.status ?? "never opened"}`, frame);
    if (one.index !== data["index"])
      return this.fail(`${where} was iteration ${one.index} and is ${String(data["index"])}`, frame);
    one.status = status;
    // A cancelled run is swept from the outside in.
    const left = [...run.tasks.values()].find(({ id, endStatus }) => id.startsWith(`${frame}/`) && endStatus === null);
    if (left !== undefined && status !== "cancelled")
      return this.fail(`${where} ends as ${status} while ${left.id} inside is open`, frame, left.id);
    if (status !== "succeeded" || run.requested === null) return;
    const slot = frame.slice(run.id.length + 1);
    for (const node of nodesOfScope(run.requested, slot) ?? [])
      if (node.host === null && !hasEndedWell(run.tasks.get(taskIdOf(run.id, slot, node.ordinal))?.endStatus))
        return this.fail(`${where} succeeded, and node ${node.ordinal} inside has not`, frame);
  }

  /** A task changes: all iterations and containers around it must be open. */
  #checkAround(run: ProjectedRun, task: string, { type, position }: ObservedFact): void {
    const { scope } = parseTaskId(task);
    if (scope === "" || type === "task.cancelled") return;
    this.checkedCount++;
    const frame = `${run.id}.${scope}`;
    const projected = run.tasks.get(frame);
    // A cancelled iteration is swept a few tasks a turn; until then its workers may still report.
    if (projected === undefined || (projected.endStatus !== null && projected.endStatus !== "cancelled"))
      this.fail(
        `${type} at position ${position}: ${task} changes, and ${frame} around it is ${projected?.endStatus ?? "not opened"}`,
        task,
      );
  }

  #checkContainer(run: ProjectedRun, container: string, node: RequestedNode, { type, position }: ObservedFact): void {
    const all = this.#iterationsOf.get(container) ?? [];
    const where = `${type} at position ${position}: ${container}`;
    this.checkedCount++;
    if (all.some(({ status }) => status === null)) return this.fail(`${where} ends while an iteration of it is open`, container);
    if (type !== "task.succeeded" || node.container === null || run.tasks.get(container)?.isHosting !== true) return;
    const good = all.filter(({ status }) => status === "succeeded").map(({ index }) => index);
    const ordered = good.toSorted((a, b) => a - b);
    if (ordered.some((index, at) => index !== at))
      return this.fail(`${where} succeeded for iterations ${ordered.join()}`, container);
    if (node.container.count !== null && good.length !== node.container.count)
      this.fail(`${where} succeeded for ${good.length} iterations of ${node.container.count}`, container);
  }
}
