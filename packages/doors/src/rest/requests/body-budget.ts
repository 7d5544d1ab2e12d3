// The bodies that are being received or worked on: each has a limit of its own, and this is the one for all of them together.

import { fault } from "@astraflow/protocol";
import type { FastifyReply, FastifyRequest } from "fastify";

/** About sixty of the largest ones. */
const bodyBytesTotalMax = 512 * 1024 * 1024;

export class BodyBudget {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax = bodyBytesTotalMax) {
    this.#bytesMax = bytesMax;
  }

  /** Keeps room for a body until its answer is out. A body that does not say its length counts as long as it may become. */
  reserve(request: FastifyRequest, reply: FastifyReply, limit: number): void {
    const { "content-length": length, "transfer-encoding": encoding } = request.headers;
    const bytes = encoding === undefined ? Math.min(Number(length ?? 0), limit) : limit;
    // Of a caller that has gone meanwhile no close follows any more.
    if (!(bytes > 0) || reply.raw.destroyed) return;
    if (this.#bytes + bytes > this.#bytesMax)
      throw fault("E.OVERLOADED", "too many large requests are being received at once; try again later");
    this.#bytes += bytes;
    reply.raw.once("close", () => {
      this.#bytes -= bytes;
    });
  }
}
