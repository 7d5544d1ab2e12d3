// The operators: they send worker commands and follow them to their end, read runs at earlier positions, and read ledgers.

import { getOrCreate } from "../kernel/get-or-create.ts";
import { missingPackageRunPrefix, type PlannedCall } from "../plan/planned-calls.ts";
import { type ApiCallAnswer, ApiClient, itemsOf, type UnroutedApiCall } from "./simulated-api.ts";

type WorkerCommandCall = Extract<PlannedCall, { what: "errand" }>;

/** A read of a run that is made again later. */
interface RememberedRead {
  readonly runId: string;
  readonly asOf: number;
}

/** Remembered reads of a tenant. */
const rememberedReadsMax = 8;
const triesMax = 3;

export class SimulatedOperator extends ApiClient {
  readonly #rememberedReads = new Map<string, RememberedRead[]>();
  /** By tenant: ids of all worker commands that were accepted, and of those that have not been seen to end. */
  readonly #acceptedCommands = new Map<string, Set<string>>();
  readonly #openCommands = new Map<string, Set<string>>();
  /** Tenants whose catalogue was seen to know a package. */
  readonly #tenantsWithPackages = new Set<string>();

  async sendWorkerCommand({ name, worker, command, isDoubled }: WorkerCommandCall): Promise<void> {
    const spec = this.findWorker(worker);
    if (spec === undefined) return;
    const { tenant, instance } = spec;
    const target: Pick<UnroutedApiCall, "route" | "params"> =
      command.of === "kick"
        ? { route: "kickWorker", params: { workerId: instance } }
        : { route: "commandWorker", params: { workerName: instance } };
    const body = JSON.stringify(command.of === "kick" ? { reason: `wanted by ${name}` } : this.#commandBody(command));
    const apiCall = { caller: "operator", tenant, idempotencyKey: name, ...target, body };
    const doubled = isDoubled ? this.callWithRetries(apiCall, triesMax) : null;
    this.recordCommandAnswer(tenant, await this.callWithRetries(apiCall, triesMax));
    if (doubled !== null) this.recordCommandAnswer(tenant, await doubled);
  }

  /** An answer to a worker command. */
  recordCommandAnswer(tenant: string, { status, body }: ApiCallAnswer): void {
    if (status !== 202) return;
    const id = String((body as { commandId: unknown }).commandId);
    const accepted = getOrCreate(this.#acceptedCommands, tenant, () => new Set<string>());
    if (accepted.has(id)) return;
    accepted.add(id);
    getOrCreate(this.#openCommands, tenant, () => new Set<string>()).add(id);
  }

  /** A run was read: some reads are remembered, rather those of runs that go on. */
  rememberRunRead(tenant: string, { status, body }: ApiCallAnswer): void {
    if (status !== 200) return;
    const { runId, asOf, status: stands } = body as { runId: string; asOf: number; status: string };
    const isOver = stands !== "queued" && stands !== "running";
    if (this.random.chance(isOver ? 0.8 : 0.3)) return;
    const reads = getOrCreate(this.#rememberedReads, tenant, () => []);
    if (reads.length < rememberedReadsMax) reads.push({ runId, asOf });
    else reads[this.random.integerBelow(rememberedReadsMax)] = { runId, asOf };
  }

  /** Reads a run again as it was then; and the catalogue, until something is in it. */
  async rereadSnapshot(tenant: string): Promise<void> {
    if (!this.#tenantsWithPackages.has(tenant)) {
      const answer = await this.callApi({ caller: "reader", tenant, route: "listPackages" });
      if (answer.status === 200 && itemsOf(answer).length > 0) this.#tenantsWithPackages.add(tenant);
    }
    const reads = this.#rememberedReads.get(tenant) ?? [];
    if (reads.length > 0) await this.#readSnapshot("reader", tenant, this.random.pick(reads));
  }

  /** True when every command that was accepted has ended. Cancels the runs that nobody can carry out. */
  async haveCommandsEnded(tenant: string): Promise<boolean> {
    for (const status of ["queued", "running"]) {
      const query = { status, limit: "200" };
      const answer = await this.callApi({ caller: "poller", tenant, route: "listRuns", query });
      for (const { runId, clientId } of answer.status === 200 ? itemsOf(answer) : [])
        if (String(clientId).startsWith(missingPackageRunPrefix))
          await this.callApi({ caller: "canceller", tenant, route: "cancelRun", params: { runId: String(runId) } });
    }
    const open = this.#openCommands.get(tenant) ?? new Set();
    for (const commandId of open) {
      const answer = await this.callApi({ caller: "poller", tenant, route: "getCommand", params: { commandId } });
      if (answer.status === 200 && (answer.body as { status: string }).status !== "sent") open.delete(commandId);
    }
    return open.size === 0;
  }

  /** The last reads about these runs and all commands of a tenant. */
  async readEverything(tenant: string, runs: Iterable<string>): Promise<void> {
    const asked = { caller: "auditor", tenant } as const;
    for (const commandId of this.#acceptedCommands.get(tenant) ?? [])
      await this.callApi({ ...asked, route: "getCommand", params: { commandId } });
    for (const read of this.#rememberedReads.get(tenant) ?? []) await this.#readSnapshot("auditor", tenant, read);
    for (const runId of runs) await this.callApi({ ...asked, route: "getRunLedger", params: { runId } });
    const limit = String(this.random.pick([150, 1_000, 10_000]));
    for (let after: number | null = 0; after !== null; ) {
      const answer: ApiCallAnswer = await this.callApi({ ...asked, route: "getLedger", query: { after: String(after), limit } });
      after = answer.status === 200 ? (answer.body as { next: number | null }).next : null;
    }
  }

  #commandBody(command: Exclude<WorkerCommandCall["command"], { of: "kick" }>): object {
    const url = command.of === "pkg.install" && { url: "https://packages.test/extra.zip" };
    if (command.of !== "rebind") return { type: command.of, name: command.name, version: "1.0.0", ...url };
    return { type: "rebind", queue: `worker.${this.findWorker(command.successor)?.instance ?? "nobody"}` };
  }

  #readSnapshot(caller: string, tenant: string, { runId, asOf }: RememberedRead): Promise<ApiCallAnswer> {
    return this.callApi({ caller, tenant, route: "readMoment", params: { runId }, query: { at: String(asOf) } });
  }
}
