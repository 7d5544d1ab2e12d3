// The heartbeats of a session: when they are due, what they say, and what their answers renew. What follows from a lease that ends, or
// from a scheduler that does not answer, is decided in link.ts.

import { createHash } from "node:crypto";
import type { SessionAcceptPayload } from "@astraflow/protocol";
import type { FrameWriter } from "./frame-writer.ts";
import { Lease } from "./lease.ts";
import type { Announced, LinkNote, LinkOffer, LinkPorts, LinkSettings } from "./link-ports.ts";
import type { Keeping } from "./outbox-keeper.ts";
import type { Work } from "./work.ts";

export interface PulseParts {
  readonly ports: Pick<LinkPorts, "now" | "vitals" | "count" | "note">;
  readonly offer: () => LinkOffer;
  readonly settings: Pick<LinkSettings, "lease" | "heartbeatMs">;
  readonly keeping: Keeping | null;
  readonly writer: FrameWriter;
  readonly work: Work;
}

type Installed = LinkOffer["packages"];

export class Pulse {
  readonly #parts: PulseParts;
  readonly lease: Lease;
  /** When the next beat is due; Infinity while there is no session. */
  beatAt = Number.POSITIVE_INFINITY;
  #periodMs: number;
  #latencyMs: number | null = null;
  /** Digest of what the scheduler knows to be installed. */
  #toldHash = "";
  /** A beat that told more, and is not answered yet. */
  #telling: { readonly id: string; readonly hash: string } | null = null;
  #wasWell = true;
  #announced: Announced = { memPct: null, diskPct: null };

  constructor(parts: PulseParts) {
    this.#parts = parts;
    this.lease = new Lease(parts.settings.lease);
    this.#periodMs = parts.settings.heartbeatMs;
  }

  /** Whether outcomes of new work could be kept. */
  get canKeep(): boolean {
    const { keeping } = this.#parts;
    return keeping === null || keeping.isHealthy;
  }

  /** Whether the scheduler should hear, as soon as there is a session, how the worker is: it is not well, or was not when last asked. */
  isHealthNews(): boolean {
    const wasWell = this.#wasWell;
    return this.#look().problems.length > 0 || !wasWell;
  }

  /** A register told all that is installed. */
  registered(installed: Installed): void {
    this.#toldHash = hashOf(installed);
    this.#telling = null;
  }

  /** A fresh session: its register, sent at `from`, was the renewal. */
  begin(accept: SessionAcceptPayload, from: number): void {
    this.lease.grant(accept.lease_ms, from);
    this.#periodMs = accept.heartbeat_interval_ms ?? this.#parts.settings.heartbeatMs;
    this.#announced = announcedBy(accept);
    this.beatAt = this.#parts.ports.now() + this.#periodMs;
  }

  /** The same session goes on: its resume, sent at `from`, was a renewal. */
  goOn(accept: SessionAcceptPayload, from: number): void {
    this.lease.renew(accept.lease_ms, from);
    this.#periodMs = accept.heartbeat_interval_ms ?? this.#periodMs;
    this.#announced = announcedBy(accept);
    this.beatAt = this.#parts.ports.now() + this.#periodMs;
  }

  /** The socket is gone. The lease runs on. */
  pause(): void {
    this.lease.forgetAsked();
    this.beatAt = Number.POSITIVE_INFINITY;
  }

  /** Sends a beat and gives its id. */
  beat({ isLeaving, isDraining }: { readonly isLeaving: boolean; readonly isDraining: boolean }): string {
    const { ports, offer, work, writer } = this.#parts;
    const { metrics, problems } = this.#look();
    const { occupied: inflight, unacked, outbox } = work.counts;
    const installed = offer().packages;
    const hash = hashOf(installed);
    const isNews = hash !== this.#toldHash;
    const payload = {
      healthy: !isLeaving && problems.length === 0,
      metrics: { ...metrics, ...(this.#latencyMs !== null && { latency_ms: this.#latencyMs }), inflight, unacked, outbox },
      packages: isNews ? { hash, installed } : { hash },
      held: work.held(),
      ...(isDraining && { draining: true }),
    };
    const now = ports.now();
    const id = writer.control("control.heartbeat", payload, { ackRequest: true });
    this.lease.ask(id, now);
    this.beatAt = now + this.#periodMs;
    if (isNews) this.#telling = { id, hash };
    ports.count("heartbeat_sent_total");
    if (problems.length > 0) ports.count("heartbeat_degraded_total");
    return id;
  }

  /** An ack names a frame, perhaps a beat. */
  answered(id: string): void {
    const sentAt = this.lease.answer(id);
    if (sentAt === undefined) return;
    this.#latencyMs = Math.max(0, Math.round(this.#parts.ports.now() - sentAt));
    if (this.#telling?.id !== id) return;
    this.#toldHash = this.#telling.hash;
    this.#telling = null;
  }

  #look(): { metrics: Record<string, number>; problems: readonly string[] } {
    const vitals = this.#parts.ports.vitals(this.#announced);
    const problems = this.canKeep ? vitals.problems : ["the outbox cannot be written", ...vitals.problems];
    // What is no number would be written as null, and a beat that cannot be read ends the session.
    const metrics = Object.fromEntries(Object.entries(vitals.metrics).filter(([, value]) => Number.isFinite(value)));
    this.#noteHealth(problems);
    return { metrics, problems };
  }

  #noteHealth(problems: readonly string[]): void {
    const isWell = problems.length === 0;
    if (isWell === this.#wasWell) return;
    this.#wasWell = isWell;
    const note: LinkNote = isWell
      ? { level: "info", event: "healthy", message: "the worker is well again" }
      : { level: "warn", event: "unhealthy", message: `the worker should get no new work: ${problems.join("; ")}` };
    this.#parts.ports.note(note);
  }
}

/** Short, and the same however the list is ordered. */
function hashOf(installed: Installed): string {
  const lines = installed.map(({ name, version, status }) => JSON.stringify([name, version, status])).sort();
  return createHash("sha256").update(lines.join("\n")).digest("hex").slice(0, 32);
}

const announcedBy = (accept: SessionAcceptPayload): Announced => ({
  memPct: accept.drain_mem_pct ?? null,
  diskPct: accept.drain_disk_pct ?? null,
});
