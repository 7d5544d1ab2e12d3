// The heartbeats of a session and the lease that they renew. What follows when it ends is decided in scheduler-link.ts.

import { createHash } from "node:crypto";
import type { SessionAcceptPayload } from "@astraflow/protocol";
import type { AttemptManager } from "./attempt-manager.ts";
import type { LinkContext } from "./link-context.ts";
import type { DrainThresholds, WorkerCapabilities, WorkerHealth } from "./link-ports.ts";

type InstalledPackages = WorkerCapabilities["packages"];

export class Heartbeats {
  readonly #context: LinkContext;
  readonly #attempts: AttemptManager;
  readonly lease: Lease;
  /** When the next beat is due; Infinity while there is no session. */
  nextHeartbeatAt = Number.POSITIVE_INFINITY;
  #intervalMs: number;
  #latencyMs: number | null = null;
  /** Digest of what the scheduler knows to be installed. */
  #ackedPackagesHash = "";
  /** An unanswered heartbeat that listed new packages. */
  #unackedPackages: { readonly id: string; readonly hash: string } | null = null;
  /** The same of what is kept for later tasks. */
  #ackedResourcesHash = "";
  #unackedResources: { readonly id: string; readonly hash: string } | null = null;
  #wasHealthy = true;
  #drainThresholds: DrainThresholds = { memPct: null, diskPct: null };

  constructor(context: LinkContext, attempts: AttemptManager) {
    this.#context = context;
    this.#attempts = attempts;
    this.lease = new Lease(context.settings.lease);
    this.#intervalMs = context.settings.heartbeatMs;
  }

  get canPersistOutcomes(): boolean {
    const { durableOutbox } = this.#context;
    return durableOutbox === null || durableOutbox.isHealthy;
  }

  /** Whether a new session should start with a health report: the worker is unhealthy, or was when last asked. */
  shouldReportHealth(): boolean {
    const wasWell = this.#wasHealthy;
    return this.#readHealth().problems.length > 0 || !wasWell;
  }

  /** The register frame listed everything that is installed. */
  packagesRegistered(installed: InstalledPackages): void {
    this.#ackedPackagesHash = digestPackages(installed);
    this.#unackedPackages = null;
  }

  /** A fresh session: its register, sent at `from`, was the renewal. */
  startSession(accept: SessionAcceptPayload, from: number): void {
    this.lease.grant(accept.lease_ms, from);
    this.#intervalMs = this.#context.settings.heartbeatMs;
    this.#adoptTerms(accept);
  }

  /** The same session goes on: its resume, sent at `from`, was a renewal. */
  resumeSession(accept: SessionAcceptPayload, from: number): void {
    this.lease.renew(accept.lease_ms, from);
    this.#adoptTerms(accept);
  }

  #adoptTerms(accept: SessionAcceptPayload): void {
    // Another scheduler may have the session now.
    this.#ackedResourcesHash = "";
    this.#unackedResources = null;
    this.#intervalMs = accept.heartbeat_interval_ms ?? this.#intervalMs;
    this.#drainThresholds = { memPct: accept.drain_mem_pct ?? null, diskPct: accept.drain_disk_pct ?? null };
    this.nextHeartbeatAt = this.#context.ports.now() + this.#intervalMs;
  }

  /** The socket is gone. The lease runs on. */
  pause(): void {
    this.lease.clearUnanswered();
    this.nextHeartbeatAt = Number.POSITIVE_INFINITY;
  }

  sendHeartbeat({ isLeaving, isDraining }: { readonly isLeaving: boolean; readonly isDraining: boolean }): string {
    const { ports, capabilities, writer } = this.#context;
    const { metrics, problems, resources } = this.#readHealth();
    const { occupied: inflight, unacked, outbox } = this.#attempts.counts;
    const installed = capabilities().packages;
    const hash = digestPackages(installed);
    const isNews = hash !== this.#ackedPackagesHash;
    const hasNewResources = resources !== undefined && resources.hash !== this.#ackedResourcesHash;
    const payload = {
      healthy: !isLeaving && problems.length === 0,
      metrics: { ...metrics, ...(this.#latencyMs !== null && { latency_ms: this.#latencyMs }), inflight, unacked, outbox },
      packages: isNews ? { hash, installed } : { hash },
      ...(resources !== undefined && { resources: hasNewResources ? resources : { hash: resources.hash } }),
      held: this.#attempts.held(),
      ...(isDraining && { draining: true }),
    };
    const now = ports.now();
    const id = writer.sendControl("control.heartbeat", payload, { ackRequest: true });
    this.lease.heartbeatSent(id, now);
    this.nextHeartbeatAt = now + this.#intervalMs;
    if (isNews) this.#unackedPackages = { id, hash };
    if (hasNewResources) this.#unackedResources = { id, hash: resources.hash };
    ports.incrementCounter("heartbeat_sent_total");
    if (problems.length > 0) ports.incrementCounter("heartbeat_degraded_total");
    return id;
  }

  handleAck(id: string): void {
    const sentAt = this.lease.heartbeatAnswered(id);
    if (sentAt === undefined) return;
    this.#latencyMs = Math.max(0, Math.round(this.#context.ports.now() - sentAt));
    if (this.#unackedResources?.id === id) {
      this.#ackedResourcesHash = this.#unackedResources.hash;
      this.#unackedResources = null;
    }
    if (this.#unackedPackages?.id !== id) return;
    this.#ackedPackagesHash = this.#unackedPackages.hash;
    this.#unackedPackages = null;
  }

  #readHealth(): WorkerHealth {
    const vitals = this.#context.ports.readHealth(this.#drainThresholds);
    const problems = this.canPersistOutcomes ? vitals.problems : ["the outbox cannot be written", ...vitals.problems];
    // NaN would be written as null, and a heartbeat that cannot be read ends the session.
    const metrics = Object.fromEntries(Object.entries(vitals.metrics).filter(([, value]) => Number.isFinite(value)));
    this.#logHealthChange(problems);
    return { ...vitals, metrics, problems };
  }

  #logHealthChange(problems: readonly string[]): void {
    const isWell = problems.length === 0;
    if (isWell === this.#wasHealthy) return;
    this.#wasHealthy = isWell;
    if (isWell) this.#context.log("info", "healthy", "the worker is healthy again");
    else this.#context.log("warn", "unhealthy", `the worker is unhealthy and takes no new work: ${problems.join("; ")}`);
  }
}

/** Short, and the same however the list is ordered. */
function digestPackages(installed: InstalledPackages): string {
  const lines = installed.map(({ name, version, status }) => JSON.stringify([name, version, status])).sort();
  return createHash("sha256").update(lines.join("\n")).digest("hex").slice(0, 32);
}

export interface LeaseSettings {
  /** Share of the lease that is given up for safety: clocks drift and stopping takes time. */
  readonly safetyMargin: number;
  /** Heartbeats that may go unanswered before the link counts as dead. */
  readonly missedHeartbeatsMax: number;
}

export class Lease {
  readonly #settings: LeaseSettings;
  /** Unanswered renewals by frame id, oldest first. */
  readonly #unanswered = new Map<string, number>();
  #leaseMs = Number.POSITIVE_INFINITY;
  #renewedAt = Number.POSITIVE_INFINITY;

  constructor(settings: LeaseSettings) {
    this.#settings = settings;
  }

  /** A session began: its register, sent at `from`, was the renewal. */
  grant(leaseMs: number | undefined, from: number): void {
    this.#leaseMs = leaseMs ?? Number.POSITIVE_INFINITY;
    this.#renewedAt = from;
    this.#unanswered.clear();
  }

  /** The session goes on: its resume, sent at `from`, was a renewal of what was granted. */
  renew(leaseMs: number | undefined, from: number): void {
    this.grant(leaseMs ?? this.#leaseMs, from);
  }

  heartbeatSent(id: string, at: number): void {
    this.#unanswered.set(id, at);
  }

  /** The answer to a heartbeat came. Older ones need none any more. Gives when it was sent; undefined: it answers no heartbeat. */
  heartbeatAnswered(id: string): number | undefined {
    const sentAt = this.#unanswered.get(id);
    if (sentAt === undefined) return undefined;
    for (const [older, at] of this.#unanswered) if (at <= sentAt) this.#unanswered.delete(older);
    this.#renewedAt = Math.max(this.#renewedAt, sentAt);
    return sentAt;
  }

  /** The connection is gone: answers to what was asked on it will not come, the lease itself runs on. */
  clearUnanswered(): void {
    this.#unanswered.clear();
  }

  get isSchedulerSilent(): boolean {
    return this.#unanswered.size >= this.#settings.missedHeartbeatsMax;
  }

  /** It is over; only a new grant begins another. */
  expire(): void {
    this.#renewedAt = Number.POSITIVE_INFINITY;
  }

  /** From here on nothing may be done in the name of this lease. */
  get selfFenceAt(): number {
    return this.#renewedAt + this.#leaseMs * (1 - this.#settings.safetyMargin);
  }
}
