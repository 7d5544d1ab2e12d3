// A worker's connection to the schedulers: dials through the simulated network as its WebSocket would.

import type { DialerEvents, DialTarget, SchedulerDialer } from "@astraflow/runtime";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SimulatedConnection } from "../network/simulated-connection.ts";
import type { SimulatedNetwork } from "../network/simulated-network.ts";
import type { SimulatedWorkerIdentity } from "../observation/observation.ts";

/** How long a socket may take to open, and the other end to answer a close. */
const openWaitMs = 10_000;
const closeWaitMs = 1_000;

export interface WorkerConnectionOptions {
  readonly identity: SimulatedWorkerIdentity;
  readonly eventLoop: ProcessEventLoop;
  readonly network: SimulatedNetwork;
  readonly events: DialerEvents;
  /** Which scheduler to dial: the last one where it is named, unless somebody sends the worker elsewhere. */
  readonly chooseScheduler: (last: string | null) => string;
}

export class SimulatedWorkerConnection implements SchedulerDialer {
  readonly #options: WorkerConnectionOptions;
  #connection: SimulatedConnection | null = null;
  #scheduler: string | null = null;
  #closing: Promise<void> = Promise.resolve();

  constructor(options: WorkerConnectionOptions) {
    this.#options = options;
  }

  dial(hint: DialTarget): void {
    const { identity, eventLoop, network, events, chooseScheduler } = this.#options;
    this.#scheduler = chooseScheduler(hint === "same" ? this.#scheduler : null);
    const isCurrent = (): boolean => this.#connection === connection;
    const connection: SimulatedConnection = network.dial(identity, eventLoop, this.#scheduler, {
      opened: () => {
        stopWaiting();
        if (isCurrent()) events.connectionOpened();
      },
      text: (text) => {
        if (isCurrent()) events.messageReceived(text);
      },
      ping: () => connection.worker.pong(),
      pong: () => undefined,
      drained: () => undefined,
      closed: (code, reason) => {
        stopWaiting();
        if (!isCurrent()) return;
        this.#connection = null;
        events.connectionLost(`the connection was closed (${code} ${reason})`);
      },
    });
    const stopWaiting = eventLoop.after(openWaitMs, () => connection.worker.terminate());
    this.#connection = connection;
  }

  send(text: string): void {
    if (!this.#options.eventLoop.hasEnded) this.#connection?.worker.send(text);
  }

  closeConnection(code: number, reason: string): void {
    const connection = this.#connection;
    if (connection === null) return;
    this.#connection = null;
    const end = connection.worker;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closing = promise;
    if (end.handlers === null || end.state === "gone") resolve();
    else {
      const cancel = this.#options.eventLoop.after(closeWaitMs, () => end.terminate());
      const closed = (): void => {
        cancel();
        resolve();
      };
      end.handlers = { ...end.handlers, closed };
    }
    end.close(code, reason);
  }

  bufferedBytes(): number {
    return this.#connection?.worker.outgoing.bufferedBytes ?? 0;
  }

  whenClosed(): Promise<void> {
    return this.#closing;
  }
}
