// A worker's connection to the schedulers: dials through the simulated network as its WebSocket would. It also remembers the fences of dispatches, because
// a handler is not told the fence under which it runs.

import type { DialerEvents, DialTarget, SchedulerDialer } from "@astraflow/runtime";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SimulatedConnection } from "../network/simulated-connection.ts";
import type { SimulatedNetwork } from "../network/simulated-network.ts";
import type { SimulatedWorkerIdentity } from "../observation/observation.ts";

/** How long a socket may take to open, and the other end to answer a close. */
const openWaitMs = 10_000;
const closeWaitMs = 1_000;

export class SimulatedWorkerConnection implements SchedulerDialer {
  readonly #identity: SimulatedWorkerIdentity;
  readonly #eventLoop: ProcessEventLoop;
  readonly #network: SimulatedNetwork;
  readonly #events: DialerEvents;
  readonly #chooseScheduler: (last: string | null) => string;
  readonly #fences = new Map<string, number>();
  #connection: SimulatedConnection | null = null;
  #scheduler: string | null = null;
  #closing: Promise<void> = Promise.resolve();

  constructor(given: {
    identity: SimulatedWorkerIdentity;
    eventLoop: ProcessEventLoop;
    network: SimulatedNetwork;
    events: DialerEvents;
    chooseScheduler: (last: string | null) => string;
  }) {
    this.#identity = given.identity;
    this.#eventLoop = given.eventLoop;
    this.#network = given.network;
    this.#events = given.events;
    this.#chooseScheduler = given.chooseScheduler;
  }

  dial(hint: DialTarget): void {
    const scheduler = this.#chooseScheduler(hint === "same" ? this.#scheduler : null);
    this.#scheduler = scheduler;
    const isCurrent = (): boolean => this.#connection === connection;
    const connection: SimulatedConnection = this.#network.dial(this.#identity, this.#eventLoop, scheduler, {
      opened: () => {
        stopWaiting();
        if (isCurrent()) this.#events.connectionOpened();
      },
      text: (text) => {
        this.#recordDispatches(text);
        if (isCurrent()) this.#events.messageReceived(text);
      },
      ping: () => connection.worker.pong(),
      pong: () => undefined,
      drained: () => undefined,
      closed: (code, reason) => {
        stopWaiting();
        if (!isCurrent()) return;
        this.#connection = null;
        this.#events.connectionLost(`the connection was closed (${code} ${reason})`);
      },
    });
    const stopWaiting = this.#eventLoop.after(openWaitMs, () => connection.worker.terminate());
    this.#connection = connection;
  }

  send(text: string): void {
    if (!this.#eventLoop.hasEnded) this.#connection?.worker.send(text);
  }

  closeConnection(code: number, reason: string): void {
    const connection = this.#connection;
    if (connection === null) return;
    this.#connection = null;
    const end = connection.worker;
    this.#closing = new Promise((resolve) => {
      const handlers = end.handlers;
      if (handlers === null || end.state === "gone") return resolve();
      const cancel = this.#eventLoop.after(closeWaitMs, () => end.terminate());
      end.handlers = {
        ...handlers,
        closed: () => {
          cancel();
          resolve();
        },
      };
    });
    end.close(code, reason);
  }

  bufferedBytes(): number {
    return this.#connection?.worker.outgoing.bufferedBytes ?? 0;
  }

  whenClosed(): Promise<void> {
    return this.#closing;
  }

  /** Under which fence this boot was granted an attempt: every grant has a number of its own. */
  fenceOf(task: string, attempt: number): number {
    return this.#fences.get(`${task}#${attempt}`) ?? -1;
  }

  #recordDispatches(text: string): void {
    if (!text.includes('"biz.exec.dispatch')) return;
    const { type, payload } = JSON.parse(text) as { type: string; payload: { items?: unknown } };
    if (type === "biz.exec.dispatch") this.#recordFence(payload);
    else if (type === "biz.exec.dispatch.batch" && Array.isArray(payload.items))
      for (const item of payload.items) this.#recordFence(item);
  }

  #recordFence(dispatch: unknown): void {
    const { task_id, attempt, fence } = dispatch as { task_id?: string; attempt?: number; fence?: number };
    if (fence !== undefined) this.#fences.set(`${task_id}#${attempt ?? 1}`, fence);
  }
}
