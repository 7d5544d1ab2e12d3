// What an onlooker of the simulated world sees, in order: frames on the wire, calls and answers, handlers, processes, faults, phases.
// Checkers know nothing else: no row, no object of the engine, the doors or the worker is ever shown here.

/** Milliseconds since the world began, of a clock that nobody in the world can read. May have fractions. */
export type TrueTime = number;

export interface ObservationStamp {
  readonly at: TrueTime;
  /** Counts all observations of a world from 0; the only order there is within one instant. */
  readonly n: number;
}

/** A worker's process as seen from outside: `worker` names the machine ("w3"), `boot` one life of its process. */
export interface SimulatedWorkerIdentity {
  readonly worker: string;
  readonly instance: string;
  readonly boot: string;
  readonly tenant: string;
}

/** First of all observations, once: what the seed has drawn. */
export interface WorldSetupObservation {
  readonly kind: "set-up";
  readonly seed: number;
  readonly profile: string;
  readonly schedulers: readonly string[];
  readonly tenants: readonly string[];
  readonly workers: readonly SimulatedWorkerSpec[];
  readonly guarantees: TimingGuarantees;
}

/** A machine that runs a worker; its instance id lasts over restarts. */
export interface SimulatedWorkerSpec extends Omit<SimulatedWorkerIdentity, "boot"> {
  readonly slots: number;
  readonly pool: string | null;
  /** Package and version of its one package, and the node types it has handlers for. */
  readonly packageName: string;
  readonly packageVersion: string;
  readonly nodeTypes: readonly string[];
  /** Tasks of one node type at once, where it limits one. */
  readonly perNodeLimits?: Readonly<Record<string, number>>;
  /** Its outbox is on a disk; without one a killed process loses results that were not acked. */
  readonly hasDisk: boolean;
  /** A worker that is not of our making: no fences, no inventory, no stop, no outbox on a disk. */
  readonly dialect?: "first" | "v1" | "basic";
}

/** The times that were promised, in true milliseconds. */
export interface TimingGuarantees {
  readonly ackDeadlineMs: number;
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  /** The same for workers that cannot be told how often to beat. */
  readonly quietLeaseMs: number;
  readonly quietHeartbeatMs: number;
  /** Beyond its lease: how long a worker that cannot list what it runs may be silent about an attempt before it is asked. */
  readonly silenceMs: number;
  /** An attempt that its worker could not stop keeps its slot for so long, at most. */
  readonly unstoppedSlotMs: number;
  readonly maxDeliveries: number;
  /** The engine looks at least this often. */
  readonly idleMs: number;
  /** From "heal" to "converged" at most. */
  readonly convergeMs: number;
}

export interface PhaseObservation {
  readonly kind: "phase";
  /**
   * fault phase: faults may happen · heal: all faults have ended, all processes are up or starting, nobody drains ·
   * converged: every run has ended (or the bound is over: `isInTime` false) · end: the last reads are done, nothing follows.
   */
  readonly phase: "storm" | "heal" | "converged" | "end";
  readonly isInTime?: boolean;
}

/** A fault begins or, where it lasts, ends. `name` is from the fault table and is what campaigns count. */
export interface FaultObservation {
  readonly kind: "fault";
  readonly name: string;
  readonly target: string;
  readonly event: "begins" | "ends";
  readonly detail?: string;
}

export interface ProcessObservation {
  readonly kind: "process";
  readonly role: "scheduler" | "worker";
  /** "s1", "w3". */
  readonly process: string;
  /** One life of the process: its boot id for a worker, "s1#2" for a scheduler. */
  readonly boot: string;
  /** A crash ends every handler of a worker at that instant (each has its own observation). `left`: a worker's graceful end is over. */
  readonly event:
    | "starts"
    | "is up"
    | "crashes"
    | "pauses"
    | "resumes"
    | "leaves"
    | "left"
    | "stops"
    | "stopped"
    | "failed to start";
  readonly detail?: string;
}

/** A connection between a worker and a scheduler, named "c17"; each side has its own picture of whether it lives. */
export interface ConnectionObservation extends SimulatedWorkerIdentity {
  readonly kind: "link";
  readonly connection: string;
  readonly scheduler: string;
  readonly event: "dialled" | "refused" | "opened" | "closed";
  /** Whose picture it is: the scheduler opens first, the worker once it hears of it. */
  readonly side: "worker" | "scheduler";
  readonly detail?: string;
}

/** A frame: sent once, then delivered (more than once when the network doubles it) or lost. `frame` joins them. */
export interface FrameObservation extends SimulatedWorkerIdentity, Pick<ConnectionObservation, "connection" | "scheduler"> {
  readonly kind: "frame";
  readonly toward: "scheduler" | "worker";
  readonly event: "sent" | "delivered" | "lost";
  readonly frame: number;
  readonly text: string;
}

/** A call of the API, before it leaves its caller. `call` joins it with its answer; a repetition is a new call with the same key. */
export interface ApiCallObservation {
  readonly kind: "call";
  readonly call: number;
  /** "starter", "canceller", "operator", "reader", "tail", "auditor" (the last reads after convergence). */
  readonly caller: string;
  readonly scheduler: string;
  readonly tenant: string;
  /** Of the REST API; or "tailLog" (TenantLogPage), "readChunks" (OutputChunkPage), "readMoment" (a run as it was at `query.at`). */
  readonly route: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly idempotencyKey: string | null;
  /** JSON text. */
  readonly body: string | null;
}

/** The answer reaches its caller. None ever comes for a call that was lost: then `status` is 0 and the body null, at the caller's patience. */
export interface ApiAnswerObservation extends Pick<ApiCallObservation, "call" | "caller" | "scheduler" | "tenant" | "route"> {
  readonly kind: "answer";
  readonly status: number;
  /** JSON as it was answered, read. */
  readonly body: unknown;
}

/** Body of an answered "tailLog" (query: after, limit): a page of a tenant's whole log, as a live stream at that scheduler would read it. */
export interface TenantLogPage {
  readonly items: readonly {
    readonly position: number;
    /** Store time. */
    readonly at: number;
    /** "run/<id>" or "worker/<tenant>/<instance>". */
    readonly subject: string;
    readonly type: string;
    readonly data: Readonly<Record<string, unknown>>;
  }[];
  readonly next: number;
  readonly head: number;
  readonly floor: number;
}

/** Body of an answered "readChunks" (params: task, fence): the rows of what an attempt printed, in order, each with the chunks it holds. */
export interface OutputChunkPage {
  readonly items: readonly {
    /** Number of its first chunk within the attempt, from 0. */
    readonly first: number;
    readonly count: number;
    readonly chunks: readonly unknown[];
  }[];
}

/** A handler at a worker, by the dispatch that started it. */
export interface HandlerObservation extends SimulatedWorkerIdentity {
  readonly kind: "handler";
  /**
   * starts · told: its stop signal fired · ends: it returned or threw, while it had not been told to stop, so its outcome stands for it ·
   * gone: it came back after it was told, or its process ended. Exactly one of ends and gone follows every start.
   */
  readonly event: "starts" | "told" | "ends" | "gone";
  readonly run: string;
  readonly task: string;
  readonly node: string;
  readonly nodeType: string;
  readonly fence: number;
  readonly attempt: number;
  /** The concurrency key in the node's policy and its limit; null without one. */
  readonly key: string | null;
  readonly limit: number;
  /** What it returned or threw: "done", "skipped", "failed", "retriable"; why it is gone: "stopped", "process ended". */
  readonly detail?: string;
}

/** The world itself saw something that must never be: an engine that spins, a process that threw, a world that cannot go on. */
export interface DefectObservation {
  readonly kind: "broken";
  readonly name: "spin" | "crash" | "stuck" | "report";
  readonly process: string;
  readonly message: string;
}

/** What can be seen, without its place in time. */
export type UnstampedObservation =
  | WorldSetupObservation
  | PhaseObservation
  | FaultObservation
  | ProcessObservation
  | ConnectionObservation
  | FrameObservation
  | ApiCallObservation
  | ApiAnswerObservation
  | HandlerObservation
  | DefectObservation;

export type Observation = ObservationStamp & UnstampedObservation;

/** Called for every observation, in order, at the moment it is made. Must not throw and must not keep the world waiting. */
export type ObservationListener = (observation: Observation) => void;

/** What a world says of itself at the end. */
export interface WorldReport {
  readonly seed: number;
  readonly profile: string;
  /** 32 hex digits over every observation in order; equal for equal seeds, schedules and mutants. */
  readonly traceHash: string;
  /** How often each fault began, by name. */
  readonly faults: Readonly<Record<string, number>>;
  readonly observations: number;
  /** Steps of the event queue. */
  readonly events: number;
  readonly simulatedMs: number;
  readonly runs: number;
  /** Handlers started. */
  readonly starts: number;
  /** Nodes of all accepted runs. */
  readonly tasks: number;
  readonly hasConverged: boolean;
  /** Things that were seen to happen at least once, such as "handed over to another scheduler"; campaigns add them up. */
  readonly sometimes: Readonly<Record<string, number>>;
}

/** One fault of a fault phase as plain data, so that a schedule can be stored, shrunk by leaving events out, and played again. */
export interface ScheduledFault {
  readonly at: TrueTime;
  /** A name of the fault table. */
  readonly kind: string;
  /** "s1", "w3", "w3-s1" (a path), "store", "api", or "*". */
  readonly target: string;
  /** How long it lasts, for those that last. */
  readonly ms?: number;
  /** A share (0..1), a number of milliseconds, a name: what the kind needs. */
  readonly rate?: number;
  readonly amount?: number;
  readonly detail?: string;
}
