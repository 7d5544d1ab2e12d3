// The operators: they send worker commands and follow them to their end, read runs at earlier positions, and read ledgers.

import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedWorkerSpec } from "../observation/observation.ts";
import type { PlannedCall } from "../plan/planned-calls.ts";
import { missingPackageRunPrefix } from "../plan/planned-worker-commands.ts";
import type { ApiCall, ApiCallAnswer } from "./simulated-api.ts";

export interface OperatorOptions {
  readonly random: SeededRandom;
  readonly schedulers: readonly string[];
  readonly workers: readonly SimulatedWorkerSpec[];
  readonly callApi: (call: ApiCall) => Promise<ApiCallAnswer>;
  readonly sleep: (ms: number) => Promise<void>;
}

type WorkerCommandCall = Extract<PlannedCall, { what: "errand" }>;
type UnroutedApiCall = Omit<ApiCall, "scheduler">;

/** Looks of a tenant that are looked at again. */
const rememberedReadsMax = 8;
const triesMax = 3;

export class SimulatedOperator {
  readonly #options: OperatorOptions;
  readonly #random: SeededRandom;
  readonly #rememberedReads = new Map<string, { readonly run: string; readonly asOf: number }[]>();
  /** Ids of all orders to workers that were accepted, by tenant, and of those that have not been seen to end. */
  readonly #acceptedCommands = new Map<string, Set<string>>();
  readonly #openCommands = new Map<string, Set<string>>();
  /** Tenants whose catalogue was seen to know a package. */
  readonly #tenantsWithPackages = new Set<string>();

  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#random = options.random;
  }

  async sendWorkerCommand({ name, worker, command, isDoubled }: WorkerCommandCall): Promise<void> {
    const { workers } = this.#options;
    const spec = workers.find((one) => one.worker === worker);
    if (spec === undefined) return;
    const { tenant, instance } = spec;
    const about = { caller: "operator", tenant, idempotencyKey: name } as const;
    const apiCall: UnroutedApiCall =
      command.of === "kick"
        ? { ...about, route: "kickWorker", params: { workerId: instance }, body: JSON.stringify({ reason: `wanted by ${name}` }) }
        : {
            ...about,
            route: "commandWorker",
            params: { workerName: instance },
            body: JSON.stringify(this.#commandBody(command)),
          };
    const doubled = isDoubled ? this.#callWithRetries(apiCall) : null;
    this.recordCommandAnswer(tenant, await this.#callWithRetries(apiCall));
    if (doubled !== null) this.recordCommandAnswer(tenant, await doubled);
  }

  /** An answer to an order about a worker. */
  recordCommandAnswer(tenant: string, { status, body }: ApiCallAnswer): void {
    if (status !== 202) return;
    const id = String((body as { commandId: unknown }).commandId);
    const given = getOrCreateSet(this.#acceptedCommands, tenant);
    if (given.has(id)) return;
    given.add(id);
    getOrCreateSet(this.#openCommands, tenant).add(id);
  }

  /** A run was looked at: some looks are remembered, rather those at runs that go on. */
  rememberRunRead(tenant: string, { status, body }: ApiCallAnswer): void {
    if (status !== 200) return;
    const { runId, asOf, status: stands } = body as { runId: string; asOf: number; status: string };
    const isOver = stands !== "queued" && stands !== "running";
    if (this.#random.chance(isOver ? 0.8 : 0.3)) return;
    const looks = this.#rememberedReads.get(tenant) ?? [];
    this.#rememberedReads.set(tenant, looks);
    if (looks.length < rememberedReadsMax) looks.push({ run: runId, asOf });
    else looks[this.#random.integerBelow(rememberedReadsMax)] = { run: runId, asOf };
  }

  /** Looks again at what was seen before, as it was then; and at the catalogue, until something is in it. */
  async rereadSnapshot(tenant: string): Promise<void> {
    if (!this.#tenantsWithPackages.has(tenant)) {
      const { status, body } = await this.#callApi({ caller: "reader", tenant, route: "listPackages" });
      if (status === 200 && (body as { items: readonly unknown[] }).items.length > 0) this.#tenantsWithPackages.add(tenant);
    }
    const looks = this.#rememberedReads.get(tenant) ?? [];
    if (looks.length > 0) await this.#readSnapshot("reader", tenant, this.#random.pick(looks));
  }

  /** True when every order that was accepted has ended. Cancels the runs that nobody can carry out. */
  async haveCommandsEnded(tenant: string): Promise<boolean> {
    for (const status of ["queued", "running"]) {
      const query = { status, limit: "200" };
      const answer = await this.#callApi({ caller: "poller", tenant, route: "listRuns", query });
      const items = answer.status === 200 ? (answer.body as { items: readonly ListedRun[] }).items : [];
      for (const { runId, clientId } of items)
        if (clientId?.startsWith(missingPackageRunPrefix) === true)
          await this.#callApi({ caller: "canceller", tenant, route: "cancelRun", params: { runId } });
    }
    const open = getOrCreateSet(this.#openCommands, tenant);
    for (const commandId of open) {
      const answer = await this.#callApi({ caller: "poller", tenant, route: "getCommand", params: { commandId } });
      if (answer.status === 200 && (answer.body as { status: string }).status !== "sent") open.delete(commandId);
    }
    return open.size === 0;
  }

  /** The last reads about these runs and all orders of a tenant. */
  async readEverything(tenant: string, runs: Iterable<string>): Promise<void> {
    const asked = { caller: "auditor", tenant } as const;
    for (const commandId of getOrCreateSet(this.#acceptedCommands, tenant))
      await this.#callApi({ ...asked, route: "getCommand", params: { commandId } });
    for (const look of this.#rememberedReads.get(tenant) ?? []) await this.#readSnapshot("auditor", tenant, look);
    for (const runId of runs) await this.#callApi({ ...asked, route: "getRunLedger", params: { runId } });
    const limit = String(this.#random.pick([150, 1_000, 10_000]));
    for (let after: number | null = 0; after !== null; ) {
      const answer: ApiCallAnswer = await this.#callApi({ ...asked, route: "getLedger", query: { after: String(after), limit } });
      after = answer.status === 200 ? (answer.body as { next: number | null }).next : null;
    }
  }

  #commandBody(command: Exclude<WorkerCommandCall["command"], { of: "kick" }>): object {
    if (command.of !== "rebind") return { type: command.of, name: command.name, version: "1.0.0" };
    const successor = this.#options.workers.find((one) => one.worker === command.successor);
    return { type: "rebind", queue: `worker.${successor?.instance ?? "nobody"}` };
  }

  #readSnapshot(caller: string, tenant: string, look: { readonly run: string; readonly asOf: number }): Promise<ApiCallAnswer> {
    const { run: runId, asOf } = look;
    return this.#callApi({ caller, tenant, route: "readMoment", params: { runId }, query: { at: String(asOf) } });
  }

  async #callWithRetries(apiCall: UnroutedApiCall): Promise<ApiCallAnswer> {
    for (let trial = 1; ; trial++) {
      const answer = await this.#callApi(apiCall);
      const mayHelp = answer.status === 0 || answer.status === 429 || answer.status >= 500;
      if (!mayHelp || trial >= triesMax) return answer;
      await this.#options.sleep(this.#random.logUniform(50, 1_500));
    }
  }

  #callApi(apiCall: UnroutedApiCall): Promise<ApiCallAnswer> {
    const { callApi: ask, schedulers } = this.#options;
    return ask({ ...apiCall, scheduler: this.#random.pick(schedulers) });
  }
}

interface ListedRun {
  readonly runId: string;
  readonly clientId?: string;
}

function getOrCreateSet(sets: Map<string, Set<string>>, key: string): Set<string> {
  let set = sets.get(key);
  if (set === undefined) sets.set(key, (set = new Set()));
  return set;
}
