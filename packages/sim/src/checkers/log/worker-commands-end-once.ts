// I52: every order about a worker ends once. One that was accepted, whoever heard of it, comes to exactly one fact that says how, its document
// says the same, and under one key there is one order.

import type { ApiExchange, Checker, CheckerContext } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";

const commandRoutes = new Set(["drainWorker", "undrainWorker", "kickWorker", "commandWorker"]);

interface CommandRead {
  readonly name: string;
  readonly status: string;
  readonly asOf: number;
}

export function checkWorkerCommandsEndOnce({ reportViolation, projection, world }: CheckerContext): Checker {
  /** How each ended, by tenant and id. */
  const ends = new Map<string, { readonly status: string; readonly position: number }>();
  /** Those that must end: they were accepted, or the audit alone says that they were given, to that worker. */
  const given = new Map<string, { readonly why: string; readonly unheardTo: string | null }>();
  const shown: CommandRead[] = [];
  /** Which order a key stands for. */
  const keys = new Map<string, string>();
  let checkedCount = 0;

  const accept = ({ call, answer }: ApiExchange): void => {
    const name = `${call.tenant} ${String((answer.body as { commandId: unknown }).commandId)}`;
    given.set(name, { why: `${call.route} of ${call.tenant} was accepted`, unheardTo: null });
    if (call.idempotencyKey === null) return;
    const key = `${call.tenant} ${call.idempotencyKey}`;
    const first = keys.get(key) ?? name;
    keys.set(key, first);
    checkedCount++;
    if (first !== name) reportViolation(`key ${key} stands for command ${first} and for ${name}`, [call.scheduler]);
  };

  const record = ({ tenant, type, data, position }: ObservedFact): void => {
    const name = `${tenant} ${String(data["id"])}`;
    const before = ends.get(name);
    checkedCount++;
    if (before !== undefined)
      return reportViolation(`command ${name} is ${before.status} at position ${before.position} and ends again at ${position}`, [
        tenant,
      ]);
    ends.set(name, { status: type.slice("command.".length), position });
  };

  const compareWithLog = ({ name, status, asOf }: CommandRead): string | null => {
    const end = ends.get(name);
    const told = end === undefined || end.position > asOf ? "sent" : end.status;
    checkedCount++;
    return status === told ? null : `command ${name} is ${status}, true at ${asOf}; the log says ${told}`;
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onExchange(exchange) {
      const { call, answer } = exchange;
      if (commandRoutes.has(call.route) && answer.status === 202) accept(exchange);
      if (call.route !== "getCommand" || answer.status !== 200) return;
      const { commandId, status, asOf } = answer.body as { commandId: string; status: string; asOf: number };
      shown.push({ name: `${call.tenant} ${commandId}`, status, asOf });
    },
    onFact(fact) {
      const { type, data, tenant, worker } = fact;
      if (type === "command.acked" || type === "command.failed") record(fact);
      if (!type.startsWith("audit.") || typeof data["command"] !== "string" || data["outcome"] !== "ok") return;
      const name = `${tenant} ${data["command"]}`;
      if (!given.has(name)) given.set(name, { why: `${type} stands in the log of ${tenant}`, unheardTo: worker });
    },
    onEnd() {
      for (const read of shown) {
        const problem = compareWithLog(read);
        if (problem !== null) return reportViolation(problem, [read.name]);
      }
      // The bound of the last runs is one for orders too.
      if (world.phase !== "end") return;
      for (const [name, { why, unheardTo }] of given) {
        // Nobody waited for what nobody heard of: it ends when its worker is back or lost, which may be after the end of the world.
        const isWaitedFor = unheardTo === null || projection.workers.get(unheardTo)?.presence === "online";
        if (isWaitedFor && !ends.has(name)) return reportViolation(`${why}, and command ${name} never ends`, [name]);
      }
    },
  };
}
