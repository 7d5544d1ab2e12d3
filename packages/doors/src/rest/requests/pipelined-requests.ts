// Requests that come on one connection before the earlier ones are answered. The HTTP library hands on all that it has read at once, hundreds in one
// chunk; here each waits until the answer before it has left.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { MetricsRegistry } from "../../environment/metrics-registry.ts";

export const pipelineLimits = {
  /** Waiting requests of one connection, and of all together; the connection that sends one more is closed. */
  waitingMax: 100,
  waitingTotalMax: 10_000,
} as const;
export type PipelineLimits = Readonly<Record<keyof typeof pipelineLimits, number>>;

type HandleRequest = (request: IncomingMessage, response: ServerResponse) => void;

interface WaitingRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface Pipeline {
  readonly socket: Socket;
  /** Behind the one that is being answered. */
  readonly waiting: WaitingRequest[];
  isAnswering: boolean;
}

export class PipelinedRequests {
  readonly #handle: HandleRequest;
  readonly #limits: PipelineLimits;
  readonly #countCut: () => void;
  readonly #pipelines = new WeakMap<Socket, Pipeline>();
  #waitingTotal = 0;

  constructor(handle: HandleRequest, metrics: MetricsRegistry, limits: Partial<PipelineLimits> = {}) {
    this.#handle = handle;
    this.#limits = { ...pipelineLimits, ...limits };
    const cut = metrics.counter("http_pipelines_cut_total", "Connections closed because too many of their requests waited.", []);
    this.#countCut = () => cut.withLabels().add(1);
  }

  readonly add: HandleRequest = (request, response) => {
    const { socket } = request;
    const pipeline = this.#pipelines.get(socket) ?? this.#open(socket);
    if (!pipeline.isAnswering) return this.#answer(pipeline, { request, response });
    // The rest of a chunk that was read before its connection was closed.
    if (socket.destroyed) return;
    if (pipeline.waiting.length >= this.#limits.waitingMax || this.#waitingTotal >= this.#limits.waitingTotalMax) {
      this.#countCut();
      return void socket.destroy();
    }
    pipeline.waiting.push({ request, response });
    this.#waitingTotal += 1;
  };

  #open(socket: Socket): Pipeline {
    const pipeline: Pipeline = { socket, waiting: [], isAnswering: false };
    this.#pipelines.set(socket, pipeline);
    socket.once("close", () => {
      this.#waitingTotal -= pipeline.waiting.length;
      pipeline.waiting.length = 0;
    });
    return pipeline;
  }

  #answer(pipeline: Pipeline, { request, response }: WaitingRequest): void {
    pipeline.isAnswering = true;
    response.once("close", () => {
      pipeline.isAnswering = false;
      if (!pipeline.socket.destroyed) this.#answerNext(pipeline);
    });
    this.#handle(request, response);
  }

  #answerNext(pipeline: Pipeline): void {
    const next = pipeline.waiting.shift();
    if (next === undefined) return;
    this.#waitingTotal -= 1;
    this.#answer(pipeline, next);
  }
}
