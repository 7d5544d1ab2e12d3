// I46: every operator action is audited. For every answered operator request there is an audit entry about its target with the outcome that was
// answered, also where the request was refused; and there are no more entries than requests.

import { type ApiExchange, LogExpectationChecker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { isFinalAnswer } from "../../checking/run-view.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { ApiCallObservation, Observation } from "../../observation/observation.ts";

/** Routes whose deeds are audited, and what the audit calls them. */
const actionByRoute: Readonly<Record<string, string>> = {
  cancelRun: "run.cancel",
  skipNode: "run.skip",
  retryNode: "run.retry",
  rebindRun: "run.rebind",
  drainWorker: "worker.drain",
  undrainWorker: "worker.undrain",
  kickWorker: "worker.kick",
};
/** The same for what a worker is told by the route of commands, by the type of the command. */
const actionByCommandType: Readonly<Record<string, string>> = {
  drain: "worker.drain",
  rebind: "worker.rebind",
  "pkg.install": "pkg.install",
  "pkg.uninstall": "pkg.uninstall",
};
const auditedActions = new Set([...Object.values(actionByRoute), ...Object.values(actionByCommandType)]);

/** The action of the audit that a call asks for, and its name with tenant and target; null for any other call. */
function auditedActionOf({ route, tenant, params, body }: ApiCallObservation) {
  const type = route === "commandWorker" ? String((JSON.parse(body ?? "{}") as { type?: unknown }).type) : "";
  const action = actionByRoute[route] ?? actionByCommandType[type];
  if (action === undefined) return null;
  const target = params["runId"] ?? params["workerId"] ?? params["workerName"] ?? "";
  return { action, target, name: nameOf(tenant, action, target) };
}

const nameOf = (tenant: string, action: string, target: string): string => `${tenant} ${action} ${target}`;

/** Refused before anything was looked at, or because there is nothing of the tenant to say it about. */
const unauditedFaults = new Set(["E.NOT_FOUND", "E.REQUEST.INVALID", "E.OVERLOADED", "E.SHUTTING_DOWN", "E.TIMEOUT"]);

/** What a worker is to leave to a queue that nobody has is refused once its own worker is known, and so it is heard. */
const isUnaudited = (action: string, code: string): boolean =>
  unauditedFaults.has(code) && !(action === "worker.rebind" && code === "E.REQUEST.INVALID");

export class OperatorActionsAreAudited extends LogExpectationChecker {
  /** By tenant, action and target. */
  readonly #asked = new Map<string, number>();
  readonly #entries = new Map<string, string[]>();
  /** Tenants in which a worker was told to leave what follows to another: its runs are rebound by that, task by task. */
  readonly #leaving = new Set<string>();

  override onObservation(observation: Observation): void {
    const audited = observation.kind === "call" ? auditedActionOf(observation) : null;
    if (observation.kind !== "call" || audited === null) return;
    if (audited.action === "worker.rebind") this.#leaving.add(observation.tenant);
    this.#asked.set(audited.name, (this.#asked.get(audited.name) ?? 0) + 1);
  }

  override onExchange({ call, answer }: ApiExchange): void {
    const audited = auditedActionOf(call);
    if (audited === null || !isFinalAnswer(answer)) return;
    const { action, target, name } = audited;
    const { error, newRun } = answer.body as { error?: string; newRun?: unknown };
    if (error !== undefined && isUnaudited(action, error)) return;
    // Of a run that was over a node is not tried again: a new run is started, and the order was refused before that.
    const done = newRun !== undefined ? "E.RUN.TERMINAL" : (error ?? "ok");
    // What a worker is to leave is accepted before it is known whether all of it could be left.
    const outcome = action === "worker.rebind" && error === undefined ? null : done;
    this.expectInLog(call.tenant, answer.n, target, () => {
      const all = this.#entries.get(name) ?? [];
      const isKept = outcome === null ? all.length > 0 : all.includes(outcome);
      return isKept ? null : `${name} was answered with ${outcome ?? "ok"}, and the audit says ${all.join() || "nothing"}`;
    });
  }

  override onFact({ type, data, tenant, position }: ObservedFact): void {
    const action = type.startsWith("audit.") ? type.slice("audit.".length) : "";
    if (!auditedActions.has(action)) return;
    const target = String(data["target"]).split("/").at(-1) ?? "";
    const name = nameOf(tenant, action, target);
    const all = getOrCreate(this.#entries, name, () => []);
    all.push(String(data["outcome"]));
    this.checkedCount++;
    const isOfLeaving = action === "run.rebind" && this.#leaving.has(tenant);
    const asked = this.#asked.get(name) ?? 0;
    const where = `position ${position} of ${tenant}`;
    if (all.length > asked && !isOfLeaving)
      this.fail(`${where} is entry ${all.length} of ${action} about ${target}, asked ${asked} times`, target);
    if (typeof data["by"] !== "string") this.fail(`${where}: nobody is named for ${action}`, target);
  }
}
