// The link's ports, settings and log events, and what it knows about its worker. The link itself is scheduler-link.ts.

import type { RegisterPayload } from "@astraflow/protocol";
import type { IncomingVendorFrame } from "@astraflow/sdk";
import type { ReliableStream } from "@astraflow/session";
import type { LocalAttempt } from "../attempts/attempt.ts";
import type { AttemptOutcome } from "../attempts/outcome.ts";
import type { TakenPackageCommand } from "../packages/install-journal.ts";
import type { ResourceReport } from "../resources/resource.ts";
import type { WorkerEnvironment } from "../system/environment.ts";
import type { LinkPhase } from "./link-phase.ts";
import type { SchedulerDialer } from "./websocket-dialer.ts";

/** Transport, clock, randomness and runner. Only `startHandler` may call back into the link before it has returned. */
export interface LinkPorts
  extends Pick<WorkerEnvironment, "now" | "random" | "randomBytes">,
    Omit<SchedulerDialer, "whenClosed"> {
  /** The time of day for the envelope; shown, never used for a decision. */
  timestamp(): string;
  /** `tick` is wanted at this instant; a later call replaces an earlier one. */
  wakeAt(at: number): void;
  /** `flush` is wanted once all that has arrived by now was taken in. */
  requestFlush(): void;
  /** Calls the handler of an attempt that has a slot. `handleOutcome` and then `handleHandlerReturned` follow, exactly once each. */
  startHandler(attempt: LocalAttempt): void;
  /** How the worker is, asked for at every heartbeat, judged by what its scheduler announced. Cheap, and never throws. */
  readHealth(thresholds: DrainThresholds): WorkerHealth;
  /** A vendor frame of the scheduler. False: nobody listens to its type. */
  deliverVendorFrame(frame: IncomingVendorFrame): boolean;
  /** Installs and removes packages; absent: this worker does not, and says so. */
  readonly packageCommands?: PackageCommandPorts;
  incrementCounter(name: LinkCounter): void;
  /** The outcome of an attempt is known, and how long after its handler was called. */
  attemptEnded?(attempt: LocalAttempt, outcome: AttemptOutcome, durationMs: number): void;
  reportProblem(problem: { readonly message: string; readonly cause: unknown }): void;
  log(event: LinkLogEvent): void;
}

export interface PackageCommandPorts {
  /** Resolves once the command is on disk: then it is acked. */
  take(command: TakenPackageCommand): Promise<void>;
  /** The scheduler has the event that ended this command. */
  eventAcked(command: string): void;
  /** The version is about to be removed and takes no new work. */
  isLeaving(name: string, version: string): boolean;
}

export type LinkCounter = "heartbeat_sent_total" | "heartbeat_degraded_total";

/** The scheduler gives a worker nothing new from these percentages on; null where it has announced none. */
export interface DrainThresholds {
  readonly memPct: number | null;
  readonly diskPct: number | null;
}

export interface WorkerHealth {
  readonly metrics: Readonly<Record<string, number>>;
  /** Why this worker should get no new work, in sentences; empty: it is healthy. */
  readonly problems: readonly string[];
  /** What is kept for later tasks; absent where nothing is. */
  readonly resources?: ResourceReport;
}

export interface LinkLogEvent {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly event: LinkEventName;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

export type LinkEventName =
  | "phase"
  | "ready"
  | "resumed"
  | "refused"
  | "lost"
  | "reset"
  | "closed"
  | "drained"
  | "undrained"
  | "unhealthy"
  | "healthy"
  | "self-fenced"
  | "attempt-refused"
  | "package-refused"
  | "attempt-stopped"
  | "frame-ignored"
  | "feedback-dropped"
  | "word-condemned"
  | "word-refused";

export interface WorkerIdentity {
  readonly tenant: string;
  readonly instance: string;
  readonly name: string;
  readonly version: string;
  readonly hostname: string;
  /** New with every start of the process. */
  readonly boot: string;
  readonly auth: { readonly mode: "token" | "mtls"; readonly token?: string; readonly fingerprint?: string };
}

/** What this worker can do. Read at every register, so that it lists the packages of that moment. */
export interface WorkerCapabilities {
  readonly maxParallel: number;
  readonly perNodeLimits?: Readonly<Record<string, number>>;
  readonly runtimes: readonly string[];
  readonly features: readonly string[];
  readonly pool?: string;
  readonly tags?: Readonly<Record<string, string>>;
  readonly packages: NonNullable<RegisterPayload["packages"]>;
  readonly manifests: NonNullable<RegisterPayload["manifests"]>;
  /** What is kept of what results have named. */
  readonly resources?: Iterable<string>;
}

export const linkDefaults = {
  backoff: { baseMs: 1_000, maxMs: 30_000, jitter: 0.2 },
  lease: { safetyMargin: 0.1, missedHeartbeatsMax: 2 },
  outbox: { bytesInFlightMax: 8 * 1024 * 1024, feedbackWaitingMax: 1_024, vendorFramesMax: 1_024, vendorBytesMax: 1024 * 1024 },
  attemptTable: { slotWaitMs: 5_000, rememberedFencesMax: 65_536 },
  /** How long the socket may take to open, and the handshake to be acked: a scheduler paces crowds by acking late. */
  handshakeTimeoutMs: 30_000,
  /** How long the accept may take after the register, or the resume, left. */
  acceptTimeoutMs: 10_000,
  /** Used when the scheduler does not announce its own. */
  heartbeatMs: 10_000,
  /** A session that lived this long has proved itself: the next loss starts with an immediate retry again. */
  stableSessionMs: 1_000,
  /** Pause after another process took this identity over, so that two of them do not throw each other out in a loop. */
  supersededDelayMs: 5_000,
  /** Used when the scheduler does not announce how much it takes. */
  windowDefault: 64,
  /** Bytes of the scheduler's frames that may wait here for an earlier one. */
  reorderBytesMax: 8 * 1024 * 1024,
  /** While so many bytes wait in the socket no further frame of work gets its number. */
  socketBufferBytesMax: 256 * 1024,
};
export type LinkSettings = Readonly<typeof linkDefaults>;

/** Extensions of the protocol that this link understands; the scheduler uses them only with workers that announce them. */
export const linkFeatures = ["fence", "cancel", "held", "batch", "wide", "undrain", "renew", "resources"] as const;

export const linkPayloadTypes = [
  "biz.exec.dispatch",
  "biz.exec.dispatch.batch",
  "biz.exec.cancel",
  "biz.exec.feedback",
  "biz.exec.result",
  "biz.exec.result.batch",
  "biz.exec.error",
  "biz.exec.next.request",
  "biz.exec.next.response",
  "biz.resource.removed",
  "biz.pkg.event",
] as const;

/** Only workers that install packages get the first two, and send the third when their packages change. */
export const packagePayloadTypes = ["biz.pkg.install", "biz.pkg.uninstall", "biz.pkg.catalog"] as const;
export const packageFeature = "pkg.install";

export type LinkStatus = { readonly phase: LinkPhase } & WorkCounts;

/** The state of a link, for people who look for a fault. */
export interface LinkInventory {
  readonly phase: LinkPhase;
  readonly session: string | null;
  /** Until the lease expires and running work is stopped; null without a lease. */
  readonly leaseLeftMs: number | null;
  readonly attempts: readonly InventoryAttempt[];
  readonly counts: WorkCounts;
  /** Null while there is no session. */
  readonly stream: ReliableStream<never, never>["counts"] | null;
}

export interface InventoryAttempt extends Readonly<Pick<LocalAttempt, "run" | "task" | "fence" | "phase">> {
  readonly node: string;
  readonly ageMs: number;
}

export interface WorkCounts {
  /** Attempts that this worker is responsible for. */
  readonly held: number;
  /** Handlers that were called and have not returned. */
  readonly occupied: number;
  /** Messages of every kind that the scheduler has not acked. */
  readonly unacked: number;
  /** Outcomes among them, those that are not on disk yet included. */
  readonly outbox: number;
}
