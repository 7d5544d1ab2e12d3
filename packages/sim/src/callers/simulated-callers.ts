// The users of the API: they start runs and retry, cancel, skip, drain, read, and follow the log. After the fault phase everything is read once more. The
// checkers evaluate the answers.

import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedWorkerSpec, TenantLogPage } from "../observation/observation.ts";
import type { PlannedCall } from "../plan/planned-calls.ts";
import { type ApiCallAnswer, ApiClient, type ApiClientOptions, itemsOf, type UnroutedApiCall } from "./simulated-api.ts";
import { SimulatedOperator } from "./simulated-operator.ts";

/** A caller that gets no answer asks so often. */
const triesMax = 12;
const pageMax = 200;

export interface AcceptedRun {
  readonly run: string;
  readonly tenant: string;
  readonly nodes: number;
}

export class SimulatedCallers extends ApiClient {
  readonly #operator: SimulatedOperator;
  readonly #runByCallName = new Map<string, AcceptedRun>();
  readonly acceptedRuns: AcceptedRun[] = [];
  /** Calls whose callers still want something. */
  activeCalls = 0;
  /** Orders to drain or undrain that are not answered yet. */
  #openDrainCalls = 0;
  #isFaultPhaseOver = false;
  #isStopped = false;

  constructor(options: ApiClientOptions) {
    super(options);
    this.#operator = new SimulatedOperator({ ...options, random: options.random.fork("clerk") });
  }

  makeCall(call: PlannedCall): void {
    this.activeCalls++;
    void this.#performCall(call).finally(() => this.activeCalls--);
  }

  /** Readers and followers of the log; they go on until told otherwise. */
  startReaders(): void {
    const { schedulers, tenants } = this.options;
    for (const tenant of tenants) {
      void this.#readContinuously(tenant, this.random.fork(`reader ${tenant}`));
      void this.#rereadSnapshots(tenant, this.random.fork(`looking back ${tenant}`));
      for (const scheduler of schedulers)
        void this.#followLog(tenant, scheduler, this.random.fork(`tail ${tenant} ${scheduler}`));
    }
  }

  stopReaders(): void {
    this.#isStopped = true;
  }

  /** The fault phase is over: whoever wanted a worker drained gives up, and every worker gets work again. Asks until none is shown draining. */
  async undrainAllWorkers(): Promise<void> {
    this.#isFaultPhaseOver = true;
    let left: readonly SimulatedWorkerSpec[] = this.options.workers;
    while (left.length > 0) {
      while (this.#openDrainCalls > 0) await this.sleep(100);
      for (const worker of left) await this.#setDraining(worker, "undrainWorker");
      const draining = new Set<string>();
      for (const tenant of this.options.tenants) {
        const answer = await this.callApi({ caller: "operator", tenant, route: "listWorkers" });
        if (answer.status !== 200) draining.add(`of ${tenant}`);
        else
          for (const { instanceId, draining: isDraining } of itemsOf(answer))
            if (isDraining === true) draining.add(String(instanceId));
      }
      left = this.options.workers.filter(({ instance, tenant }) => draining.has(instance) || draining.has(`of ${tenant}`));
      if (left.length > 0) await this.sleep(300);
    }
  }

  /** True when no tenant has a run that goes on, and every order about a worker has ended. */
  async hasEverythingEnded(): Promise<boolean> {
    for (const tenant of this.options.tenants) if (!(await this.#operator.haveCommandsEnded(tenant))) return false;
    for (const tenant of this.options.tenants)
      for (const status of ["queued", "running"]) {
        const answer = await this.callApi({ caller: "poller", tenant, route: "listRuns", query: { status, limit: "1" } });
        if (answer.status !== 200 || itemsOf(answer).length > 0) return false;
      }
    return true;
  }

  /** The last reads: everything, at every scheduler for what is read as a whole. */
  async readEverything(): Promise<void> {
    const { tenants, schedulers } = this.options;
    for (const tenant of tenants) {
      const runs = new Set<string>();
      const printed = new Map<string, { readonly task: string; readonly fence: string }>();
      for (const scheduler of schedulers) {
        for await (const answer of this.#readPages({ tenant, scheduler, route: "listRuns" }))
          for (const { runId } of itemsOf(answer)) runs.add(String(runId));
        await this.#readWholeLog(tenant, scheduler, printed);
      }
      for (const attempt of printed.values())
        await this.callApi({ caller: "auditor", tenant, route: "readChunks", params: attempt });
      for await (const _ of this.#readPages({ tenant, scheduler: this.random.pick(schedulers), route: "listDeadLetters" }))
        continue;
      for (const { run } of this.acceptedRuns.filter((one) => one.tenant === tenant)) runs.add(run);
      for (const runId of runs) {
        const scheduler = this.random.pick(schedulers);
        await this.callApi({ caller: "auditor", tenant, scheduler, route: "getRun", params: { runId } });
        for await (const _ of this.#readPages({ tenant, scheduler, route: "listRunEvents", params: { runId } })) continue;
      }
      await this.callApi({ caller: "auditor", tenant, route: "listWorkers" });
      await this.#operator.readEverything(tenant, runs);
      // Read the log again for facts committed during the reads above.
      await this.#readWholeLog(tenant, this.random.pick(schedulers), printed);
    }
  }

  async #performCall(call: PlannedCall): Promise<void> {
    if (call.what === "start") return await this.#startRun(call);
    if (call.what === "cancel" || "node" in call) return await this.#steerRun(call);
    if (this.#isFaultPhaseOver) return;
    if (call.what === "errand") return await this.#operator.sendWorkerCommand(call);
    const worker = this.findWorker(call.worker);
    if (worker === undefined) return;
    this.#openDrainCalls++;
    await this.#setDraining(worker, call.what === "drain" ? "drainWorker" : "undrainWorker");
    this.#openDrainCalls--;
  }

  async #startRun(call: Extract<PlannedCall, { what: "start" }>): Promise<void> {
    const { tenant, name, body, hasKey, isDoubled, nodes } = call;
    const idempotencyKey = hasKey ? name : null;
    const ask = { caller: "starter", tenant, route: "startRun", idempotencyKey, body } as const;
    const doubled = isDoubled ? this.callApi(ask) : null;
    const answers = [await this.callWithRetries(ask, hasKey ? triesMax : 1), ...(doubled === null ? [] : [await doubled])];
    for (const answer of answers) {
      if (answer.status !== 202) continue;
      const run = String((answer.body as { runId: unknown }).runId);
      if (this.#runByCallName.get(name)?.run === run) continue;
      const accepted = { run, tenant, nodes };
      this.#runByCallName.set(name, accepted);
      this.acceptedRuns.push(accepted);
    }
  }

  async #steerRun(call: Exclude<PlannedCall, { what: "start" | "drain" | "undrain" | "errand" }>): Promise<void> {
    const accepted = this.#runByCallName.get(call.name);
    if (accepted === undefined) return;
    const { run: runId, tenant } = accepted;
    const asked = { caller: "operator", tenant, params: { runId } } as const;
    if (call.what === "cancel") await this.callWithRetries({ ...asked, caller: "canceller", route: "cancelRun" }, 4);
    else if (call.what === "rebind") {
      const { mode, node } = call;
      const worker = this.findWorker(call.worker)?.instance;
      const body = JSON.stringify({ mode, ...(node !== null && { node }), ...(worker !== undefined && { worker }) });
      await this.callWithRetries({ ...asked, route: "rebindRun", body }, 2);
    } else {
      const route = call.what === "skip" ? "skipNode" : "retryNode";
      const body = JSON.stringify({ reason: `wanted by ${call.name}` });
      await this.callWithRetries({ ...asked, route, params: { runId, nodeId: call.node }, body }, 2);
    }
  }

  async #setDraining({ tenant, instance }: SimulatedWorkerSpec, route: "drainWorker" | "undrainWorker"): Promise<void> {
    const answer = await this.callWithRetries({ caller: "operator", tenant, route, params: { workerId: instance } }, 3);
    this.#operator.recordCommandAnswer(tenant, answer);
  }

  protected override isGivenUp({ route }: UnroutedApiCall): boolean {
    return route === "drainWorker" && this.#isFaultPhaseOver;
  }

  async #readContinuously(tenant: string, random: SeededRandom): Promise<void> {
    while (!this.#isStopped) {
      await this.sleep(random.logUniform(200, 2_500));
      const runs = this.acceptedRuns.filter((one) => one.tenant === tenant);
      const what = random.pickWeighted({ run: 5, runs: 2, byStatus: 1, workers: 1 });
      const limit = String(random.pick([1, 5, pageMax]));
      const asked = { caller: "reader", tenant } as const;
      if (what === "run" && runs.length > 0) {
        const answer = await this.callApi({ ...asked, route: "getRun", params: { runId: random.pick(runs).run } });
        this.#operator.rememberRunRead(tenant, answer);
      } else if (what === "workers") await this.callApi({ ...asked, route: "listWorkers" });
      else if (what === "byStatus") {
        const status = random.pick(["queued", "running", "succeeded", "failed", "cancelled"]);
        await this.callApi({ ...asked, route: "listRuns", query: { status, limit } });
      } else await this.callApi({ ...asked, route: "listRuns", query: { limit } });
    }
  }

  async #rereadSnapshots(tenant: string, random: SeededRandom): Promise<void> {
    while (!this.#isStopped) {
      await this.sleep(random.logUniform(1_000, 8_000));
      await this.#operator.rereadSnapshot(tenant);
    }
  }

  /** Follows the log of a tenant at one scheduler, page by page, with pages that cut turns in half. */
  async #followLog(tenant: string, scheduler: string, random: SeededRandom): Promise<void> {
    let after = 0;
    while (!this.#isStopped) {
      await this.sleep(random.logUniform(80, 800));
      const query = { after: String(after), limit: String(random.pick([1, 3, pageMax, pageMax])) };
      const { status, body } = await this.callApi({ caller: "tail", tenant, scheduler, route: "tailLog", query });
      if (status === 200) after = (body as { next: number }).next;
    }
  }

  /** Reads the whole log once more; `printed` collects the attempts that left text behind. */
  async #readWholeLog(tenant: string, scheduler: string, printed: Map<string, { task: string; fence: string }>): Promise<void> {
    for (let after = 0; ; ) {
      const query = { after: String(after), limit: "1000" };
      const { status, body } = await this.callApi({ caller: "auditor", tenant, scheduler, route: "tailLog", query });
      if (status !== 200) return;
      const { next, items } = body as TenantLogPage;
      for (const { type, data } of items)
        if (type === "task.feedback" && data["chunks"] !== undefined) {
          const attempt = { task: String(data["task"]), fence: String(data["fence"]) };
          printed.set(`${attempt.task}#${attempt.fence}`, attempt);
        }
      if (items.length === 0) return;
      after = next;
    }
  }

  async *#readPages(apiCall: Omit<UnroutedApiCall, "caller">): AsyncGenerator<ApiCallAnswer> {
    let cursor: string | null = null;
    for (;;) {
      const query = { limit: String(pageMax), ...(cursor !== null && { cursor }) };
      const answer: ApiCallAnswer = await this.callApi({ ...apiCall, caller: "auditor", query });
      if (answer.status !== 200) return;
      yield answer;
      const { nextCursor } = answer.body as { nextCursor: string | null };
      // The log's cursor never ends; a page that is not full is the last for now.
      if (nextCursor === null || itemsOf(answer).length < pageMax) return;
      cursor = nextCursor;
    }
  }
}
