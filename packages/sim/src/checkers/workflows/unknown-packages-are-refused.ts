// I53: a run that needs a package which no worker has is refused by name if the tenant's catalogue has any package. If it is allowed, or the catalogue is
// empty, the run waits, is granted to no worker, and ends when it is cancelled.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { StartRunBody } from "../../checking/requested-runs.ts";
import { isFinalAnswer } from "../../checking/run-view.ts";
import type { Observation, TrueTime } from "../../observation/observation.ts";

interface StartRequest {
  readonly client: string;
  readonly isAllowed: boolean;
  /** Whether the tenant's catalogue had been seen to know a package, long enough before for every scheduler to have looked. */
  readonly isCatalogueFilled: boolean;
}

/** A scheduler looks at the catalogue anew after a second by its own clock. */
const catalogueRefreshMs = 2_000;

export class UnknownPackagesAreRefused extends Checker {
  readonly #asks = new Map<number, StartRequest>();
  /** When each tenant's catalogue was first seen to know something. */
  readonly #catalogueFilledAt = new Map<string, TrueTime>();
  /** Clients by tenant: which run waits for a package that nobody brings, and whether every one of its calls was refused. */
  readonly #waiting = new Map<string, { run: string | null; isRefused: boolean }>();

  override onExchange({ call, answer }: ApiExchange): void {
    const ask = this.#asks.get(call.call);
    if (ask !== undefined) this.#check(ask, answer);
    if (call.route !== "listPackages" || answer.status !== 200 || this.#catalogueFilledAt.has(call.tenant)) return;
    if ((answer.body as { items: readonly unknown[] }).items.length > 0) this.#catalogueFilledAt.set(call.tenant, answer.at);
  }

  override onFact({ type, tenant, run, data }: ObservedFact): void {
    if (type === "run.created") {
      const one = this.#waiting.get(`${tenant} ${String(data["client"])}`);
      if (one !== undefined) one.run = run;
    }
    if (type !== "task.granted") return;
    const one = [...this.#waiting].find(([, { run: waits }]) => waits === run);
    if (one !== undefined) this.fail(`${one[0]} waits for a package that nobody brings and was given away`, one[0]);
  }

  override onEnd(): void {
    for (const [name, { run, isRefused }] of this.#waiting) {
      if (run === null) continue;
      this.checkedCount++;
      if (isRefused) return this.fail(`${name} was refused, and run ${run} exists`, run);
      const end = this.projection.runs.get(run)?.endStatus ?? null;
      if (end !== null && end !== "cancelled") return this.fail(`${name} is ${end}, and nobody could carry it out`, run);
    }
  }

  override onObservation(call: Observation): void {
    if (call.kind !== "call" || call.route !== "startRun" || call.body === null) return;
    const body = JSON.parse(call.body) as StartRunBody & { readonly allowUnknown?: boolean };
    const brought = new Set(this.world.setup?.workers.map(({ packageName }) => packageName));
    if (body.workflow.nodes.every((node) => brought.has(node.package.name))) return;
    const { clientId: client, allowUnknown = false } = body;
    this.#asks.set(call.call, {
      client,
      isAllowed: allowUnknown,
      isCatalogueFilled: call.at - (this.#catalogueFilledAt.get(call.tenant) ?? call.at) > catalogueRefreshMs,
    });
    const name = `${call.tenant} ${client}`;
    if (!this.#waiting.has(name)) this.#waiting.set(name, { run: null, isRefused: true });
  }

  #check({ client, isAllowed, isCatalogueFilled }: StartRequest, answer: ApiExchange["answer"]): void {
    const { status, body, tenant } = answer;
    const one = this.#waiting.get(`${tenant} ${client}`);
    const { error, details } = (body ?? {}) as { error?: string; details?: { path?: string } };
    if (one !== undefined && status !== 400) one.isRefused = false;
    if (!isFinalAnswer(answer)) return;
    this.checkedCount++;
    const where = `${client} of ${tenant}, with a package that nobody brings,`;
    if (status === 202 && isCatalogueFilled && !isAllowed) return this.fail(`${where} was accepted`, client);
    if (status !== 202 && isAllowed) return this.fail(`${where} allows that and was answered with ${status} ${error}`, client);
    if (status === 202) return;
    if (status !== 400 || error !== "E.WORKFLOW.INVALID" || details?.path?.endsWith("/package/name") !== true)
      this.fail(`${where} was answered with ${status} ${error} at ${details?.path}`, client);
  }
}
