// The operators' books: orders to workers and what became of them, runs as they were at an earlier look, ledgers. Asks as the callers do,
// and judges nothing.

import type { ApiAnswer, ApiCall } from "./api.ts";
import type { Dice } from "./dice.ts";
import { strandedName } from "./errands.ts";
import type { WorkerShape } from "./observation.ts";
import type { Order } from "./orders.ts";

export interface ClerkOptions {
  readonly dice: Dice;
  readonly schedulers: readonly string[];
  readonly workers: readonly WorkerShape[];
  readonly ask: (call: ApiCall) => Promise<ApiAnswer>;
  readonly sleep: (ms: number) => Promise<void>;
}

type ErrandOrder = Extract<Order, { what: "errand" }>;
type Asked = Omit<ApiCall, "scheduler">;

/** Looks of a tenant that are looked at again. */
const looksMax = 8;
const triesMax = 3;

export class Clerk {
  readonly #options: ClerkOptions;
  readonly #dice: Dice;
  readonly #looks = new Map<string, { readonly run: string; readonly asOf: number }[]>();
  /** Ids of all orders to workers that were accepted, by tenant, and of those that have not been seen to end. */
  readonly #given = new Map<string, Set<string>>();
  readonly #open = new Map<string, Set<string>>();
  /** Tenants whose catalogue was seen to know a package. */
  readonly #peopled = new Set<string>();

  constructor(options: ClerkOptions) {
    this.#options = options;
    this.#dice = options.dice;
  }

  async serve({ name, worker, errand, isDoubled }: ErrandOrder): Promise<void> {
    const { workers } = this.#options;
    const shape = workers.find((one) => one.worker === worker);
    if (shape === undefined) return;
    const { tenant, instance } = shape;
    const about = { caller: "operator", tenant, idempotencyKey: name } as const;
    const asked: Asked =
      errand.of === "kick"
        ? { ...about, route: "kickWorker", params: { workerId: instance }, body: JSON.stringify({ reason: `wanted by ${name}` }) }
        : { ...about, route: "commandWorker", params: { workerName: instance }, body: JSON.stringify(this.#wordsOf(errand)) };
    const doubled = isDoubled ? this.#insist(asked) : null;
    this.heard(tenant, await this.#insist(asked));
    if (doubled !== null) this.heard(tenant, await doubled);
  }

  /** An answer to an order about a worker. */
  heard(tenant: string, { status, body }: ApiAnswer): void {
    if (status !== 202) return;
    const id = String((body as { commandId: unknown }).commandId);
    const given = setIn(this.#given, tenant);
    if (given.has(id)) return;
    given.add(id);
    setIn(this.#open, tenant).add(id);
  }

  /** A run was looked at: some looks are remembered, rather those at runs that go on. */
  looked(tenant: string, { status, body }: ApiAnswer): void {
    if (status !== 200) return;
    const { runId, asOf, status: stands } = body as { runId: string; asOf: number; status: string };
    const isOver = stands !== "queued" && stands !== "running";
    if (this.#dice.chance(isOver ? 0.8 : 0.3)) return;
    const looks = this.#looks.get(tenant) ?? [];
    this.#looks.set(tenant, looks);
    if (looks.length < looksMax) looks.push({ run: runId, asOf });
    else looks[this.#dice.below(looksMax)] = { run: runId, asOf };
  }

  /** Looks again at what was seen before, as it was then; and at the catalogue, until something is in it. */
  async lookBack(tenant: string): Promise<void> {
    if (!this.#peopled.has(tenant)) {
      const { status, body } = await this.#ask({ caller: "reader", tenant, route: "listPackages" });
      if (status === 200 && (body as { items: readonly unknown[] }).items.length > 0) this.#peopled.add(tenant);
    }
    const looks = this.#looks.get(tenant) ?? [];
    if (looks.length > 0) await this.#moment("reader", tenant, this.#dice.pick(looks));
  }

  /** True when every order that was accepted has ended. Cancels the runs that nobody can carry out. */
  async isAllOver(tenant: string): Promise<boolean> {
    for (const status of ["queued", "running"]) {
      const query = { status, limit: "200" };
      const answer = await this.#ask({ caller: "poller", tenant, route: "listRuns", query });
      const items = answer.status === 200 ? (answer.body as { items: readonly Listed[] }).items : [];
      for (const { runId, clientId } of items)
        if (clientId?.startsWith(strandedName) === true)
          await this.#ask({ caller: "canceller", tenant, route: "cancelRun", params: { runId } });
    }
    const open = setIn(this.#open, tenant);
    for (const commandId of open) {
      const answer = await this.#ask({ caller: "poller", tenant, route: "getCommand", params: { commandId } });
      if (answer.status === 200 && (answer.body as { status: string }).status !== "sent") open.delete(commandId);
    }
    return open.size === 0;
  }

  /** The last reads about these runs and all orders of a tenant. */
  async audit(tenant: string, runs: Iterable<string>): Promise<void> {
    const asked = { caller: "auditor", tenant } as const;
    for (const commandId of setIn(this.#given, tenant)) await this.#ask({ ...asked, route: "getCommand", params: { commandId } });
    for (const look of this.#looks.get(tenant) ?? []) await this.#moment("auditor", tenant, look);
    for (const runId of runs) await this.#ask({ ...asked, route: "getRunLedger", params: { runId } });
    const limit = String(this.#dice.pick([150, 1_000, 10_000]));
    for (let after: number | null = 0; after !== null; ) {
      const answer: ApiAnswer = await this.#ask({ ...asked, route: "getLedger", query: { after: String(after), limit } });
      after = answer.status === 200 ? (answer.body as { next: number | null }).next : null;
    }
  }

  #wordsOf(errand: Exclude<ErrandOrder["errand"], { of: "kick" }>): object {
    if (errand.of !== "rebind") return { type: errand.of, name: errand.name, version: "1.0.0" };
    const heir = this.#options.workers.find((one) => one.worker === errand.heir);
    return { type: "rebind", queue: `worker.${heir?.instance ?? "nobody"}` };
  }

  #moment(caller: string, tenant: string, look: { readonly run: string; readonly asOf: number }): Promise<ApiAnswer> {
    const { run: runId, asOf } = look;
    return this.#ask({ caller, tenant, route: "readMoment", params: { runId }, query: { at: String(asOf) } });
  }

  async #insist(asked: Asked): Promise<ApiAnswer> {
    for (let trial = 1; ; trial++) {
      const answer = await this.#ask(asked);
      const mayHelp = answer.status === 0 || answer.status === 429 || answer.status >= 500;
      if (!mayHelp || trial >= triesMax) return answer;
      await this.#options.sleep(this.#dice.scale(50, 1_500));
    }
  }

  #ask(asked: Asked): Promise<ApiAnswer> {
    const { ask, schedulers } = this.#options;
    return ask({ ...asked, scheduler: this.#dice.pick(schedulers) });
  }
}

interface Listed {
  readonly runId: string;
  readonly clientId?: string;
}

function setIn(sets: Map<string, Set<string>>, key: string): Set<string> {
  let set = sets.get(key);
  if (set === undefined) sets.set(key, (set = new Set()));
  return set;
}
