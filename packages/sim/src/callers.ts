// The people and programs that use the API: they start runs and try again, cancel, steer, drain, look, and follow the log. After the storm an
// auditor reads everything once more. What they see is for the judges; here nothing is judged.

import type { Api, ApiAnswer, ApiCall } from "./api.ts";
import { Clerk } from "./clerk.ts";
import type { Dice } from "./dice.ts";
import type { TailPage, WorkerShape } from "./observation.ts";
import type { Order } from "./orders.ts";
import type { Timeline } from "./timeline.ts";

export interface CallersOptions {
  readonly timeline: Timeline;
  readonly api: Api;
  readonly dice: Dice;
  readonly schedulers: readonly string[];
  readonly tenants: readonly string[];
  readonly workers: readonly WorkerShape[];
}

/** A caller that gets no answer asks so often. */
const triesMax = 12;
const pageMax = 200;

type Steering = Extract<Order, { readonly name: string; readonly node: unknown }>;

export interface AcceptedRun {
  readonly run: string;
  readonly tenant: string;
  readonly nodes: number;
}

export class Callers {
  readonly #options: CallersOptions;
  readonly #dice: Dice;
  readonly #clerk: Clerk;
  readonly #byOrder = new Map<string, AcceptedRun>();
  readonly #accepted: AcceptedRun[] = [];
  #busy = 0;
  /** Orders to drain or undrain that are not answered yet. */
  #drains = 0;
  #isCalm = false;
  #isOver = false;

  constructor(options: CallersOptions) {
    this.#options = options;
    this.#dice = options.dice;
    this.#clerk = new Clerk({
      dice: options.dice.fork("clerk"),
      schedulers: options.schedulers,
      workers: options.workers,
      ask: (call) => options.api.call(call),
      sleep: (ms) => this.#sleep(ms),
    });
  }

  get accepted(): readonly AcceptedRun[] {
    return this.#accepted;
  }

  /** Callers that still want something. */
  get busy(): number {
    return this.#busy;
  }

  place(order: Order): void {
    this.#busy++;
    void this.#serve(order).finally(() => this.#busy--);
  }

  /** Readers and followers of the log; they go on until told otherwise. */
  watch(): void {
    const { schedulers, tenants } = this.#options;
    for (const tenant of tenants) {
      void this.#read(tenant, this.#dice.fork(`reader ${tenant}`));
      void this.#lookBack(tenant, this.#dice.fork(`looking back ${tenant}`));
      for (const scheduler of schedulers) void this.#tail(tenant, scheduler, this.#dice.fork(`tail ${tenant} ${scheduler}`));
    }
  }

  stopWatching(): void {
    this.#isOver = true;
  }

  /** The storm is over: whoever wanted a worker drained gives up, and every worker gets work again. Asks until none is shown draining. */
  async calmDown(): Promise<void> {
    this.#isCalm = true;
    let left: readonly WorkerShape[] = this.#options.workers;
    while (left.length > 0) {
      while (this.#drains > 0) await this.#sleep(100);
      for (const worker of left) await this.#drain(worker, "undrainWorker", 3);
      const draining = new Set<string>();
      for (const tenant of this.#options.tenants) {
        const answer = await this.#ask({ caller: "operator", tenant, route: "listWorkers" });
        if (answer.status !== 200) draining.add(`of ${tenant}`);
        else
          for (const { instanceId, draining: isDraining } of itemsOf(answer))
            if (isDraining === true) draining.add(String(instanceId));
      }
      left = this.#options.workers.filter(({ instance, tenant }) => draining.has(instance) || draining.has(`of ${tenant}`));
      if (left.length > 0) await this.#sleep(300);
    }
  }

  /** True when no tenant has a run that goes on, and every order about a worker has ended. */
  async isAllOver(): Promise<boolean> {
    for (const tenant of this.#options.tenants) if (!(await this.#clerk.isAllOver(tenant))) return false;
    for (const tenant of this.#options.tenants)
      for (const status of ["queued", "running"]) {
        const answer = await this.#ask({ caller: "poller", tenant, route: "listRuns", query: { status, limit: "1" } });
        if (answer.status !== 200 || itemsOf(answer).length > 0) return false;
      }
    return true;
  }

  /** The last reads: everything, at every scheduler for what is read as a whole. */
  async audit(): Promise<void> {
    const { tenants, schedulers } = this.#options;
    for (const tenant of tenants) {
      const runs = new Set<string>();
      const printed = new Map<string, { readonly task: string; readonly fence: string }>();
      for (const scheduler of schedulers) {
        for await (const answer of this.#pages({ tenant, scheduler, route: "listRuns" }))
          for (const { runId } of itemsOf(answer)) runs.add(String(runId));
        await this.#follow(tenant, scheduler, printed);
      }
      for (const attempt of printed.values())
        await this.#ask({ caller: "auditor", tenant, route: "readChunks", params: attempt });
      for await (const _ of this.#pages({ tenant, scheduler: this.#dice.pick(schedulers), route: "listDeadLetters" })) continue;
      for (const { run } of this.#accepted.filter((one) => one.tenant === tenant)) runs.add(run);
      for (const runId of runs) {
        const scheduler = this.#dice.pick(schedulers);
        await this.#ask({ caller: "auditor", tenant, scheduler, route: "getRun", params: { runId } });
        for await (const _ of this.#pages({ tenant, scheduler, route: "listRunEvents", params: { runId } })) continue;
      }
      await this.#ask({ caller: "auditor", tenant, route: "listWorkers" });
      await this.#clerk.audit(tenant, runs);
      // Once more, for what was told while the books were read.
      await this.#follow(tenant, this.#dice.pick(schedulers), printed);
    }
  }

  async #serve(order: Order): Promise<void> {
    if (order.what === "start") return await this.#start(order);
    if (order.what === "cancel") {
      const accepted = this.#byOrder.get(order.name);
      if (accepted === undefined) return;
      const { run: runId, tenant } = accepted;
      await this.#insist({ caller: "canceller", tenant, route: "cancelRun", params: { runId } }, 4);
      return;
    }
    if ("node" in order) return await this.#steer(order);
    if (order.what === "errand") return this.#isCalm ? undefined : await this.#clerk.serve(order);
    const worker = this.#options.workers.find((one) => one.worker === order.worker);
    if (worker === undefined || this.#isCalm) return;
    this.#drains++;
    await this.#drain(worker, order.what === "drain" ? "drainWorker" : "undrainWorker", 3);
    this.#drains--;
  }

  async #start(order: Extract<Order, { what: "start" }>): Promise<void> {
    const { tenant, name, body, hasKey, isDoubled, nodes } = order;
    const idempotencyKey = hasKey ? name : null;
    const ask = { caller: "starter", tenant, route: "startRun", idempotencyKey, body } as const;
    const doubled = isDoubled ? this.#ask(ask) : null;
    const answer = await this.#insist(ask, hasKey ? triesMax : 1);
    const heard = [answer, ...(doubled === null ? [] : [await doubled])];
    for (const { status, body: said } of heard) {
      if (status !== 202) continue;
      const run = String((said as { runId: unknown }).runId);
      if (this.#byOrder.get(name)?.run === run) continue;
      const accepted = { run, tenant, nodes };
      this.#byOrder.set(name, accepted);
      this.#accepted.push(accepted);
    }
  }

  async #steer(order: Steering): Promise<void> {
    const accepted = this.#byOrder.get(order.name);
    if (accepted === undefined) return;
    const { run: runId, tenant } = accepted;
    const asked = { caller: "operator", tenant } as const;
    if (order.what === "rebind") {
      const { mode, node } = order;
      const worker = this.#options.workers.find((one) => one.worker === order.worker)?.instance;
      const body = JSON.stringify({ mode, ...(node !== null && { node }), ...(worker !== undefined && { worker }) });
      await this.#insist({ ...asked, route: "rebindRun", params: { runId }, body }, 2);
      return;
    }
    const route = order.what === "skip" ? "skipNode" : "retryNode";
    const body = JSON.stringify({ reason: `wanted by ${order.name}` });
    await this.#insist({ ...asked, route, params: { runId, nodeId: order.node }, body }, 2);
  }

  async #drain({ tenant, instance }: WorkerShape, route: "drainWorker" | "undrainWorker", tries: number): Promise<void> {
    this.#clerk.heard(tenant, await this.#insist({ caller: "operator", tenant, route, params: { workerId: instance } }, tries));
  }

  /** Asks again, somewhere else, while the answer says that this may help. */
  async #insist(asked: Omit<ApiCall, "scheduler">, tries: number): Promise<ApiAnswer> {
    for (let trial = 1; ; trial++) {
      const answer = await this.#ask(asked);
      const mayHelp = answer.status === 0 || answer.status === 429 || answer.status >= 500;
      if (!mayHelp || trial >= tries || (asked.route === "drainWorker" && this.#isCalm)) return answer;
      await this.#sleep(this.#dice.scale(50, 1_500));
    }
  }

  async #read(tenant: string, dice: Dice): Promise<void> {
    while (!this.#isOver) {
      await this.#sleep(dice.scale(200, 2_500));
      const runs = this.#accepted.filter((one) => one.tenant === tenant);
      const what = dice.weigh({ run: 5, runs: 2, byStatus: 1, workers: 1 });
      const limit = String(dice.pick([1, 5, pageMax]));
      if (what === "run" && runs.length > 0)
        this.#clerk.looked(
          tenant,
          await this.#ask({ caller: "reader", tenant, route: "getRun", params: { runId: dice.pick(runs).run } }),
        );
      else if (what === "workers") await this.#ask({ caller: "reader", tenant, route: "listWorkers" });
      else if (what === "byStatus") {
        const status = dice.pick(["queued", "running", "succeeded", "failed", "cancelled"]);
        await this.#ask({ caller: "reader", tenant, route: "listRuns", query: { status, limit } });
      } else await this.#ask({ caller: "reader", tenant, route: "listRuns", query: { limit } });
    }
  }

  async #lookBack(tenant: string, dice: Dice): Promise<void> {
    while (!this.#isOver) {
      await this.#sleep(dice.scale(1_000, 8_000));
      await this.#clerk.lookBack(tenant);
    }
  }

  /** Follows the log of a tenant at one scheduler, page by page, with pages that cut turns in half. */
  async #tail(tenant: string, scheduler: string, dice: Dice): Promise<void> {
    let after = 0;
    while (!this.#isOver) {
      await this.#sleep(dice.scale(80, 800));
      const query = { after: String(after), limit: String(dice.pick([1, 3, pageMax, pageMax])) };
      const { status, body } = await this.#ask({ caller: "tail", tenant, scheduler, route: "tailLog", query });
      if (status === 200) after = (body as { next: number }).next;
    }
  }

  /** Reads the whole log once more; `printed` collects the attempts that left text behind. */
  async #follow(tenant: string, scheduler: string, printed: Map<string, { task: string; fence: string }>): Promise<void> {
    for (let after = 0; ; ) {
      const query = { after: String(after), limit: "1000" };
      const { status, body } = await this.#ask({ caller: "auditor", tenant, scheduler, route: "tailLog", query });
      if (status !== 200) return;
      const { next, items } = body as TailPage;
      for (const { type, data } of items)
        if (type === "task.feedback" && data["chunks"] !== undefined) {
          const attempt = { task: String(data["task"]), fence: String(data["fence"]) };
          printed.set(`${attempt.task}#${attempt.fence}`, attempt);
        }
      if (items.length === 0) return;
      after = next;
    }
  }

  async *#pages(asked: Omit<ApiCall, "caller">): AsyncGenerator<ApiAnswer> {
    let cursor: string | null = null;
    for (;;) {
      const query = { limit: String(pageMax), ...(cursor !== null && { cursor }) };
      const answer: ApiAnswer = await this.#ask({ ...asked, caller: "auditor", query });
      if (answer.status !== 200) return;
      yield answer;
      const { nextCursor } = answer.body as { nextCursor: string | null };
      // The log's cursor never ends; a page that is not full is the last for now.
      if (nextCursor === null || itemsOf(answer).length < pageMax) return;
      cursor = nextCursor;
    }
  }

  #ask(asked: Omit<ApiCall, "scheduler"> & { readonly scheduler?: string }): Promise<ApiAnswer> {
    const { api, schedulers } = this.#options;
    return api.call({ ...asked, scheduler: asked.scheduler ?? this.#dice.pick(schedulers) });
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#options.timeline.after(ms, resolve));
  }
}

const itemsOf = ({ body }: ApiAnswer): readonly Record<string, unknown>[] =>
  (body as { items: readonly Record<string, unknown>[] }).items;
