// The frames that open a session, or ask for one to go on: handshake, register, resume. Each waits for an answer by its id.
// What an answer leads to is decided in link.ts.

import { type AckPayload, limits } from "@astraflow/protocol";
import type { HeldAttempt } from "./attempt-table.ts";
import type { FrameWriter } from "./frame-writer.ts";
import { type LinkIdentity, type LinkOffer, type LinkPorts, linkFeatures, linkPayloadTypes } from "./link-ports.ts";

export interface GreetingParts {
  readonly ports: Pick<LinkPorts, "now">;
  readonly identity: LinkIdentity;
  readonly offer: () => LinkOffer;
  readonly writer: FrameWriter;
}

export class Greeting {
  readonly #parts: GreetingParts;
  #awaited = "";
  /** When the last of them left: an accept counts as the answer to a renewal sent then. */
  askedAt = 0;
  /** How the scheduler answered the resume: the state of its window. */
  resumeAck: AckPayload | null = null;

  constructor(parts: GreetingParts) {
    this.#parts = parts;
  }

  handshake(): void {
    const { auth, name, instance, version, hostname } = this.#parts.identity;
    const worker = { worker_name: name, worker_instance_id: instance, version, hostname };
    this.#ask("control.handshake", { protocol: 2, auth, worker });
  }

  /** Gives the packages that it told. */
  register(running: readonly HeldAttempt[]): LinkOffer["packages"] {
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
    } = this.#parts.offer();
    const concurrency = { max_parallel: maxParallel, per_node_limits: perNodeLimits };
    const features = [...new Set([...linkFeatures, ...own])];
    this.#ask("control.register", {
      capabilities: { concurrency, runtimes, features, pool, tags },
      payload_types: linkPayloadTypes,
      packages,
      manifests,
      boot_id: this.#parts.identity.boot,
      running,
      ...keptWords(resources),
    });
    return packages;
  }

  resume({ id, token, lastSeen }: { readonly id: string; readonly token: string; readonly lastSeen: number }): void {
    const { boot } = this.#parts.identity;
    this.#ask("control.resume", { session_id: id, session_token: token, last_seen_seq: lastSeen, boot_id: boot });
  }

  isAwaited(id: string | undefined): boolean {
    return id !== undefined && id === this.#awaited;
  }

  /** The connection is gone: no answer will come. */
  forget(): void {
    this.#awaited = "";
    this.resumeAck = null;
  }

  #ask(type: "control.handshake" | "control.register" | "control.resume", payload: object): void {
    this.askedAt = this.#parts.ports.now();
    this.resumeAck = null;
    this.#awaited = this.#parts.writer.control(type, payload, { ackRequest: true });
  }
}

/** All of them or nothing: what a list leaves out counts as gone. */
function keptWords(resources: Iterable<string> = []): { resources?: string[] } {
  const ids = [...resources];
  const chars = ids.reduce((sum, id) => sum + id.length, 0);
  return ids.length > limits.registeredResourcesMax || chars > keptCharsMax ? {} : { resources: ids };
}

/** A register has more to say than this. */
const keptCharsMax = 256 * 1024;
