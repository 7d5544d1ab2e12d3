// The frames that open a session, or ask for one to go on: handshake, register, resume. Each waits for an answer by its id.
// What an answer leads to is decided in link.ts.

import { type AckPayload, limits } from "@astraflow/protocol";
import type { HeldAttemptRef } from "../attempts/attempt-table.ts";
import type { FrameWriter } from "./frame-writer.ts";
import { type LinkPorts, linkFeatures, linkPayloadTypes, type WorkerCapabilities, type WorkerIdentity } from "./link-ports.ts";

export interface SessionHandshakeParts {
  readonly ports: Pick<LinkPorts, "now">;
  readonly identity: WorkerIdentity;
  readonly capabilities: () => WorkerCapabilities;
  readonly writer: FrameWriter;
}

export class SessionHandshake {
  readonly #parts: SessionHandshakeParts;
  #awaitedAckId = "";
  /** When the last of them left: an accept counts as the answer to a renewal sent then. */
  sentAt = 0;
  /** How the scheduler answered the resume: the state of its window. */
  resumeAck: AckPayload | null = null;

  constructor(parts: SessionHandshakeParts) {
    this.#parts = parts;
  }

  sendHandshake(): void {
    const { auth, name, instance, version, hostname } = this.#parts.identity;
    const worker = { worker_name: name, worker_instance_id: instance, version, hostname };
    this.#sendRequest("control.handshake", { protocol: 2, auth, worker });
  }

  /** Gives the packages that it told. */
  sendRegister(running: readonly HeldAttemptRef[]): WorkerCapabilities["packages"] {
    const {
      maxParallel,
      perNodeLimits,
      runtimes,
      pool,
      tags,
      packages,
      manifests,
      features: own,
      resources,
    } = this.#parts.capabilities();
    const concurrency = { max_parallel: maxParallel, per_node_limits: perNodeLimits };
    const features = [...new Set([...linkFeatures, ...own])];
    this.#sendRequest("control.register", {
      capabilities: { concurrency, runtimes, features, pool, tags },
      payload_types: linkPayloadTypes,
      packages,
      manifests,
      boot_id: this.#parts.identity.boot,
      running,
      ...resourcesField(resources),
    });
    return packages;
  }

  sendResume({
    id,
    token,
    lastSeenSeq: lastSeen,
  }: {
    readonly id: string;
    readonly token: string;
    readonly lastSeenSeq: number;
  }): void {
    const { boot } = this.#parts.identity;
    this.#sendRequest("control.resume", { session_id: id, session_token: token, last_seen_seq: lastSeen, boot_id: boot });
  }

  isAwaitedAck(id: string | undefined): boolean {
    return id !== undefined && id === this.#awaitedAckId;
  }

  /** The connection is gone: no answer will come. */
  reset(): void {
    this.#awaitedAckId = "";
    this.resumeAck = null;
  }

  #sendRequest(type: "control.handshake" | "control.register" | "control.resume", payload: object): void {
    this.sentAt = this.#parts.ports.now();
    this.resumeAck = null;
    this.#awaitedAckId = this.#parts.writer.sendControl(type, payload, { ackRequest: true });
  }
}

/** All of them or nothing: what a list leaves out counts as gone. */
function resourcesField(resources: Iterable<string> = []): { resources?: string[] } {
  const ids = [...resources];
  const chars = ids.reduce((sum, id) => sum + id.length, 0);
  return ids.length > limits.registeredResourcesMax || chars > resourceCharsMax ? {} : { resources: ids };
}

/** A register has more to say than this. */
const resourceCharsMax = 256 * 1024;
