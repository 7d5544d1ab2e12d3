// I52: every worker command ends once. An accepted command leads to exactly one fact that records how it ended, its document says the same, and an
// Idempotency-Key stands for one command.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";

const commandRoutes = new Set(["drainWorker", "undrainWorker", "kickWorker", "commandWorker"]);

export class WorkerCommandsEndOnce extends Checker {
  /** How each ended, by tenant and id. */
  readonly #ends = new Map<string, { readonly status: string; readonly position: number }>();
  /** Those that must end: they were accepted, or the audit alone says that they were given, to that worker. */
  readonly #given = new Map<string, { readonly why: string; readonly unheardTo: string | null }>();
  readonly #shown: { readonly name: string; readonly status: string; readonly asOf: number }[] = [];
  /** Which order a key stands for. */
  readonly #keys = new Map<string, string>();

  override onExchange(exchange: ApiExchange): void {
    const { call, answer } = exchange;
    if (commandRoutes.has(call.route) && answer.status === 202) this.#accept(exchange);
    if (call.route !== "getCommand" || answer.status !== 200) return;
    const { commandId, status, asOf } = answer.body as { commandId: string; status: string; asOf: number };
    this.#shown.push({ name: `${call.tenant} ${commandId}`, status, asOf });
  }

  override onFact(fact: ObservedFact): void {
    const { type, data, tenant, worker } = fact;
    if (type === "command.acked" || type === "command.failed") this.#record(fact);
    if (!type.startsWith("audit.") || typeof data["command"] !== "string" || data["outcome"] !== "ok") return;
    const name = `${tenant} ${data["command"]}`;
    if (!this.#given.has(name)) this.#given.set(name, { why: `${type} stands in the log of ${tenant}`, unheardTo: worker });
  }

  override onEnd(): void {
    for (const { name, status, asOf } of this.#shown) {
      const end = this.#ends.get(name);
      const logged = end === undefined || end.position > asOf ? "sent" : end.status;
      this.checkedCount++;
      if (status !== logged) return this.fail(`command ${name} is ${status}, true at ${asOf}; the log says ${logged}`, name);
    }
    // The bound of the last runs is one for orders too.
    if (this.world.phase !== "end") return;
    for (const [name, { why, unheardTo }] of this.#given) {
      // Nobody waited for what nobody heard of: it ends when its worker is back or lost, which may be after the end of the world.
      const isWaitedFor = unheardTo === null || this.projection.workers.get(unheardTo)?.presence === "online";
      if (isWaitedFor && !this.#ends.has(name)) return this.fail(`${why}, and command ${name} never ends`, name);
    }
  }

  #accept({ call, answer }: ApiExchange): void {
    const name = `${call.tenant} ${String((answer.body as { commandId: unknown }).commandId)}`;
    this.#given.set(name, { why: `${call.route} of ${call.tenant} was accepted`, unheardTo: null });
    if (call.idempotencyKey === null) return;
    const key = `${call.tenant} ${call.idempotencyKey}`;
    const first = getOrCreate(this.#keys, key, () => name);
    this.checkedCount++;
    if (first !== name) this.fail(`key ${key} stands for command ${first} and for ${name}`, call.scheduler);
  }

  #record({ tenant, type, data, position }: ObservedFact): void {
    const name = `${tenant} ${String(data["id"])}`;
    const before = this.#ends.get(name);
    this.checkedCount++;
    if (before !== undefined)
      return this.fail(
        `command ${name} is ${before.status} at position ${before.position} and ends again at ${position}`,
        tenant,
      );
    this.#ends.set(name, { status: type.slice("command.".length), position });
  }
}
