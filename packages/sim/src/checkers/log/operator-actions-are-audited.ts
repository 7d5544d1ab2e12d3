// I46: every operator action is audited. For every answered operator request there is an audit entry about its target with the outcome that was
// answered, also where the request was refused; and there are no more entries than requests.

import { type ApiExchange, Checker, type CompleteLogRead } from "../../checking/checker.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
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

/** What the audit calls the deed that a call asks for, and about whom; null for any other call. */
function auditedActionOf({
  route,
  params,
  body,
}: ApiCallObservation): { readonly action: string; readonly target: string } | null {
  const type = route === "commandWorker" ? String((JSON.parse(body ?? "{}") as { type?: unknown }).type) : "";
  const action = actionByRoute[route] ?? actionByCommandType[type];
  return action === undefined ? null : { action, target: params["runId"] ?? params["workerId"] ?? params["workerName"] ?? "" };
}

/** Refused before anything was looked at, or because there is nothing of the tenant to say it about. */
const unauditedFaults = new Set(["E.NOT_FOUND", "E.REQUEST.INVALID", "E.OVERLOADED", "E.SHUTTING_DOWN", "E.TIMEOUT"]);

/** What a worker is to leave to a queue that nobody has is refused once its own worker is known, and so it is heard. */
const isUnaudited = (action: string, code: string): boolean =>
  unauditedFaults.has(code) && !(action === "worker.rebind" && code === "E.REQUEST.INVALID");

export class OperatorActionsAreAudited extends Checker {
  /** By tenant, action and target. */
  readonly #asked = new Map<string, number>();
  readonly #entries = new Map<string, string[]>();
  /** Orders that were answered, each to be found once in the log. */
  readonly #expectedEntries = new Map<
    string,
    { readonly n: number; readonly name: string; readonly outcome: string | null; readonly about: string }[]
  >();
  /** Tenants in which a worker was told to leave what follows to another: its runs are rebound by that, task by task. */
  readonly #leaving = new Set<string>();

  override onObservation(observation: Observation): void {
    const audited = observation.kind === "call" ? auditedActionOf(observation) : null;
    if (observation.kind !== "call" || audited === null) return;
    if (audited.action === "worker.rebind") this.#leaving.add(observation.tenant);
    const name = this.#nameOf(observation.tenant, audited.action, audited.target);
    this.#asked.set(name, (this.#asked.get(name) ?? 0) + 1);
  }

  override onExchange({ call, answer }: ApiExchange): void {
    const audited = auditedActionOf(call);
    if (audited === null || answer.status === 0 || answer.status === 429 || answer.status >= 500) return;
    const { action, target } = audited;
    const { error, newRun } = answer.body as { error?: string; newRun?: unknown };
    if (error !== undefined && isUnaudited(action, error)) return;
    // Of a run that was over a node is not tried again: a new run is started, and the order was refused before that.
    const done = newRun !== undefined ? "E.RUN.TERMINAL" : (error ?? "ok");
    // What a worker is to leave is accepted before it is known whether all of it could be left.
    const outcome = action === "worker.rebind" && error === undefined ? null : done;
    getOrCreate(this.#expectedEntries, call.tenant, () => []).push({
      n: answer.n,
      name: this.#nameOf(call.tenant, action, target),
      outcome,
      about: target,
    });
  }

  override onFact(fact: ObservedFact): void {
    if (fact.type.startsWith("audit.")) this.#record(fact);
  }

  override onCompleteLogRead({ tenant, startedAtObservation: since }: CompleteLogRead): void {
    const list = this.#expectedEntries.get(tenant) ?? [];
    let judged = 0;
    for (const { n, name, outcome, about } of list) {
      if (n >= since) break;
      judged++;
      this.checkedCount++;
      const all = this.#entries.get(name) ?? [];
      const isKept = outcome === null ? all.length > 0 : all.includes(outcome);
      if (!isKept)
        return this.reportViolation(
          `${name} was answered with ${outcome ?? "ok"}, and the audit says ${all.join() || "nothing"}`,
          [about],
        );
    }
    list.splice(0, judged);
  }

  #nameOf(tenant: string, action: string, target: string): string {
    return `${tenant} ${action} ${target}`;
  }

  #record({ type, data, tenant, position }: ObservedFact): void {
    const action = type.slice("audit.".length);
    if (!auditedActions.has(action)) return;
    const target = String(data["target"]).split("/").at(-1) ?? "";
    const name = this.#nameOf(tenant, action, target);
    const all = getOrCreate(this.#entries, name, () => []);
    all.push(String(data["outcome"]));
    this.checkedCount++;
    const isOfLeaving = action === "run.rebind" && this.#leaving.has(tenant);
    if (all.length > (this.#asked.get(name) ?? 0) && !isOfLeaving)
      this.reportViolation(
        `position ${position} of ${tenant} is entry ${all.length} of ${action} about ${target}, asked ${this.#asked.get(name) ?? 0} times`,
        [target],
      );
    if (typeof data["by"] !== "string")
      this.reportViolation(`position ${position} of ${tenant}: nobody is named for ${action}`, [target]);
  }
}
