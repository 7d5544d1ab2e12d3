// Builds observations by hand for the checkers' own tests: each call adds what an observer would have seen, with numbers and times filled in.

import type { Violation } from "../../checking/checker.ts";
import type {
  FaultObservation,
  HandlerObservation,
  Observation,
  PhaseObservation,
  ProcessObservation,
  TenantLogPage,
  UnstampedObservation,
} from "../../observation/observation.ts";
import { CheckerRunner } from "../checker-runner.ts";
import type { CheckerName } from "../checker-table.ts";

type Data = Readonly<Record<string, unknown>>;

export interface ScriptedNode {
  readonly before?: readonly number[];
  readonly policy?: Data;
}

const tenant = "t1";
const uuid = (at: number): string => `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`;

export class ObservationScript {
  readonly #observations: Observation[] = [];
  readonly #log: TenantLogPage["items"][number][] = [];
  #at = 0;
  #call = 0;
  #frame = 0;
  #cursor = 0;
  #storeNow = 1_000_000;

  constructor(
    options: {
      readonly perNodeLimits?: Readonly<Record<string, number>>;
      readonly hasDisk?: boolean;
      readonly dialect?: "first";
    } = {},
    profile = "default",
  ) {
    const guarantees = {
      ackDeadlineMs: 5_000,
      leaseMs: 30_000,
      heartbeatMs: 10_000,
      quietLeaseMs: 105_000,
      quietHeartbeatMs: 35_000,
      silenceMs: 62_000,
      unstoppedSlotMs: 3_600_000,
      maxDeliveries: 3,
      convergeMs: 600_000,
      idleMs: 1_000,
    };
    const shape = { pool: "default", packageName: "sim", packageVersion: "1.0.0", nodeTypes: ["sim.step"], hasDisk: false };
    const workers = ["w1", "w2"].map((worker) => ({ worker, instance: worker, tenant, slots: 2, ...shape, ...options }));
    this.observe({
      kind: "set-up",
      seed: 1,
      profile,
      schedulers: ["s1", "s2"],
      tenants: [tenant, "t2"],
      workers,
      guarantees,
    });
    for (const process of ["s1", "s2"]) this.process({ role: "scheduler", process, event: "is up" });
    for (const process of ["w1", "w2"]) this.process({ role: "worker", process, event: "is up" });
  }

  observe(unstamped: UnstampedObservation): this {
    this.#observations.push({ at: this.#at, n: this.#observations.length, ...unstamped });
    return this;
  }

  /** Time passes, true and the store's alike. */
  wait(ms: number): this {
    this.#at += ms;
    this.#storeNow += ms;
    return this;
  }

  phase(phase: PhaseObservation["phase"], isInTime?: boolean): this {
    return this.observe({ kind: "phase", phase, ...(isInTime !== undefined && { isInTime }) });
  }

  fault(options: Omit<FaultObservation, "kind" | "event">): this {
    return this.observe({ kind: "fault", event: "begins", ...options });
  }

  process(options: Omit<ProcessObservation, "kind" | "boot"> & { readonly boot?: string }): this {
    return this.observe({ kind: "process", boot: "b1", ...options });
  }

  /** Asks for a run of the given nodes; `run: null` leaves the answer out. */
  start(
    run: string | null,
    nodes: readonly ScriptedNode[] = [{}],
    options: { key?: string; client?: string; timeoutMs?: number } = {},
  ): this {
    const edges = nodes.flatMap(({ before = [] }, to) =>
      before.map((from) => ({
        id: `${from}-${to}`,
        source: { node: uuid(from), port: "o" },
        target: { node: uuid(to), port: "i" },
      })),
    );
    const workflow = {
      nodes: nodes.map(({ policy }, at) => ({
        id: uuid(at),
        type: "sim.step",
        package: { name: "sim", version: "1.0.0" },
        ...(policy && { policy }),
      })),
      edges,
    };
    const { client = options.key ?? run ?? "nobody", timeoutMs } = options;
    const body = JSON.stringify({ workflow, clientId: client, ...(timeoutMs !== undefined && { timeoutMs }) });
    return this.exchange(
      "startRun",
      { key: options.key ?? null, body },
      run === null ? null : { status: 202, body: { runId: run } },
    );
  }

  /** Asks for a run of a workflow as it is written. */
  startWorkflow(run: string, workflow: Data, more: Data = {}): this {
    const body = JSON.stringify({ workflow, clientId: run, ...more });
    return this.exchange("startRun", { body }, { status: 202, body: { runId: run } });
  }

  /** A call of the API and its answer; null where it was lost. */
  exchange(
    route: string,
    ask: {
      params?: Record<string, string>;
      query?: Record<string, string>;
      key?: string | null;
      body?: string;
      on?: string;
      caller?: string;
    },
    answer: { status: number; body: unknown } | null,
  ): this {
    const about = { call: this.#call++, caller: ask.caller ?? "reader", scheduler: ask.on ?? "s1", tenant, route };
    const { params = {}, query = {}, key = null, body = null } = ask;
    this.observe({ kind: "call", ...about, params, query, idempotencyKey: key, body });
    return this.observe({ kind: "answer", ...about, ...(answer ?? { status: 0, body: null }) });
  }

  /** What `getRun` shows. */
  show(run: string, status: string, nodes: readonly Data[], options: { asOf?: number; client?: string } = {}): this {
    const shown = nodes.map((node, at) => ({ nodeId: uuid(at), taskId: `${run}.${at}`, ...node }));
    const body = { runId: run, status, clientId: options.client ?? run, nodes: shown, asOf: options.asOf ?? this.#log.length };
    return this.exchange("getRun", { params: { runId: run } }, { status: 200, body });
  }

  /** Commits facts of one turn; nobody has read them yet. */
  commit(...facts: readonly (readonly [subject: string, type: string, data?: Data])[]): this {
    this.#storeNow++;
    for (const [subject, type, data = {}] of facts)
      this.#log.push({ position: this.#log.length + 1, at: this.#storeNow, subject, type, data });
    return this;
  }

  /** A reader takes in everything that was committed. */
  read(on = "s1"): this {
    const items = this.#log.slice(this.#cursor);
    const body: TenantLogPage = { items, next: this.#log.length, head: this.#log.length, floor: 0 };
    const query = { after: String(this.#cursor), limit: "200" };
    this.#cursor = this.#log.length;
    return this.exchange("tailLog", { query, on }, { status: 200, body });
  }

  tail(after: number, body: TenantLogPage, on = "s1"): this {
    return this.exchange("tailLog", { query: { after: String(after), limit: "200" }, on }, { status: 200, body });
  }

  created(run: string, client = run): this {
    return this.commit([`run/${run}`, "run.created", { client }]);
  }

  joined(worker: string, slots = 2): this {
    return this.commit([`worker/t1/${worker}`, "worker.joined", { boot: `${worker}-b1`, epoch: 1, slots, name: worker }]);
  }

  granted(task: string, worker: string, fence: number, attempt = 1): this {
    return this.commit([this.#subjectOf(task), "task.granted", { task, worker: `t1/${worker}`, fence, attempt }]);
  }

  /** Any other fact about a task. */
  commitTaskFact(task: string, type: string, data: Data = {}): this {
    return this.commit([this.#subjectOf(task), type, { task, ...data }]);
  }

  #subjectOf(task: string): string {
    return `run/${task.slice(0, task.lastIndexOf("."))}`;
  }

  link(worker: string, connection: string, event: "dialled" | "opened" | "closed" = "opened"): this {
    return this.observe({ kind: "link", ...this.#identity(worker), connection, scheduler: "s1", event, side: "scheduler" });
  }

  /** A socket of its own, and the session that the scheduler lets in on it. */
  accepted(worker: string, connection: string, session: string, more: Data = {}, options: { boot?: string } = {}): this {
    const payload = { session_id: session, session_token: "t", resumed: false, ...more };
    return this.link(worker, connection, "dialled")
      .link(worker, connection)
      .sendToWorker(worker, connection, "control.session.accept", payload, options);
  }

  /** The same session on a new socket. */
  resumed(worker: string, connection: string, session: string, lastSeen = -1): this {
    return this.link(worker, connection, "dialled")
      .link(worker, connection)
      .sendToScheduler(worker, connection, "control.resume", { session_id: session, session_token: "t", last_seen_seq: lastSeen })
      .sendToWorker(worker, connection, "control.session.accept", { session_id: session, session_token: "u", resumed: true });
  }

  /** A frame towards the scheduler, sent and delivered; `lost` leaves the delivery out. */
  sendToScheduler(
    worker: string,
    connection: string,
    type: string,
    payload: Data,
    options: { seq?: number; boot?: string; lost?: boolean } = {},
  ): this {
    return this.#sendFrame("scheduler", worker, connection, type, payload, options);
  }

  /** A frame towards the worker. */
  sendToWorker(
    worker: string,
    connection: string,
    type: string,
    payload: Data,
    options: { seq?: number; boot?: string; lost?: boolean } = {},
  ): this {
    return this.#sendFrame("worker", worker, connection, type, payload, options);
  }

  #sendFrame(
    toward: "scheduler" | "worker",
    worker: string,
    connection: string,
    type: string,
    payload: Data,
    { seq, boot, lost = false }: { seq?: number; boot?: string; lost?: boolean },
  ): this {
    const text = JSON.stringify({ type, payload, ...(seq !== undefined && { seq }) });
    const face = { ...this.#identity(worker), ...(boot !== undefined && { boot }) };
    const seen = { kind: "frame", ...face, connection, scheduler: "s1", toward, frame: this.#frame++, text } as const;
    this.observe({ ...seen, event: "sent" });
    return this.observe({ ...seen, event: lost ? "lost" : "delivered" });
  }

  #identity(worker: string) {
    return { worker, instance: worker, boot: `${worker}-b1`, tenant };
  }

  handler(
    event: HandlerObservation["event"],
    worker: string,
    task: string,
    fence: number,
    options: { key?: string; boot?: string } = {},
  ): this {
    const run = task.slice(0, task.lastIndexOf("."));
    const { key = null, boot = `${worker}-b1` } = options;
    const about = { run, task, node: "n", nodeType: "sim.step", fence, attempt: 1, key, limit: 1 };
    return this.observe({ kind: "handler", event, ...this.#identity(worker), boot, ...about });
  }

  /** What one checker finds in all of it. */
  runChecker(name: CheckerName): { violations: readonly Violation[]; saw: number } {
    const runner = new CheckerRunner([name]);
    for (const observation of this.#observations) runner.observe(observation);
    const { violations, saw: checkedCount } = runner.finish();
    return { violations, saw: checkedCount[name] ?? 0 };
  }
}

/** The message of the only violation; fails where there is none. */
export function violationOf(script: ObservationScript, name: CheckerName): string {
  const { violations } = script.runChecker(name);
  const [first] = violations;
  if (first === undefined) throw new Error(`${name} found nothing wrong`);
  return first.message;
}

/** Finds nothing, having looked at something. */
export function passesChecker(script: ObservationScript, name: CheckerName): boolean {
  const { violations, saw: checkedCount } = script.runChecker(name);
  if (violations[0] !== undefined) throw new Error(violations[0].message);
  return checkedCount > 0;
}
