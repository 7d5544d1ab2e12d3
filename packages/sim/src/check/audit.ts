// I46: who steers leaves a trace. For every order of an operator that was answered there is an entry of the audit on what it was about, with the
// outcome that was answered; and there are no more entries than orders.

import type { Bench, Checker, Exchange } from "./checker.ts";
import type { Fact } from "./log-book.ts";

/** Routes whose deeds are audited, and what the audit calls them. */
const actions: Readonly<Record<string, string>> = {
  cancelRun: "run.cancel",
  skipNode: "run.skip",
  retryNode: "run.retry",
  rebindRun: "run.rebind",
  drainWorker: "worker.drain",
  undrainWorker: "worker.undrain",
};

/** Refused before anything was looked at, or because there is nothing of the tenant to say it about. */
const unheard = new Set(["E.NOT_FOUND", "E.REQUEST.INVALID", "E.OVERLOADED", "E.SHUTTING_DOWN", "E.TIMEOUT"]);

export function audit({ fail }: Bench): Checker {
  /** By tenant, action and target. */
  const asked = new Map<string, number>();
  const entries = new Map<string, string[]>();
  /** Orders that were answered, each to be found once in the log. */
  const owed = new Map<
    string,
    { readonly n: number; readonly name: string; readonly outcome: string; readonly about: string }[]
  >();
  let saw = 0;

  const nameOf = (tenant: string, action: string, target: string): string => `${tenant} ${action} ${target}`;

  const hear = ({ call, answer }: Exchange): void => {
    const action = actions[call.route];
    if (action === undefined || answer.status === 0 || answer.status === 429 || answer.status >= 500) return;
    const target = call.params["runId"] ?? call.params["workerId"] ?? "";
    const { error, newRun } = answer.body as { error?: string; newRun?: unknown };
    if (error !== undefined && unheard.has(error)) return;
    // Of a run that was over a node is not tried again: a new run is started, and the order was refused before that.
    const outcome = newRun !== undefined ? "E.RUN.TERMINAL" : (error ?? "ok");
    const list = owed.get(call.tenant) ?? [];
    list.push({ n: answer.n, name: nameOf(call.tenant, action, target), outcome, about: target });
    owed.set(call.tenant, list);
  };

  const note = ({ type, data, tenant, position }: Fact): void => {
    const action = type.slice("audit.".length);
    if (!Object.values(actions).includes(action)) return;
    const target = String(data["target"]).split("/").at(-1) ?? "";
    const name = nameOf(tenant, action, target);
    const all = entries.get(name) ?? [];
    entries.set(name, all);
    all.push(String(data["outcome"]));
    saw++;
    if (all.length > (asked.get(name) ?? 0))
      fail(
        `position ${position} of ${tenant} is entry ${all.length} of ${action} about ${target}, asked ${asked.get(name) ?? 0} times`,
        [target],
      );
    if (typeof data["by"] !== "string") fail(`position ${position} of ${tenant}: nobody is named for ${action}`, [target]);
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      const action = seen.kind === "call" ? actions[seen.route] : undefined;
      if (seen.kind !== "call" || action === undefined) return;
      const name = nameOf(seen.tenant, action, seen.params["runId"] ?? seen.params["workerId"] ?? "");
      asked.set(name, (asked.get(name) ?? 0) + 1);
    },
    exchange: hear,
    fact(fact) {
      if (fact.type.startsWith("audit.")) note(fact);
    },
    known({ tenant, since }) {
      const list = owed.get(tenant) ?? [];
      let judged = 0;
      for (const { n, name, outcome, about } of list) {
        if (n >= since) break;
        judged++;
        saw++;
        const all = entries.get(name) ?? [];
        const at = all.indexOf(outcome);
        if (at < 0) return fail(`${name} was answered with ${outcome}, and the audit says ${all.join() || "nothing"}`, [about]);
      }
      list.splice(0, judged);
    },
  };
}
