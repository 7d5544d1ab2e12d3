// A worker's line to the schedulers: dials one after the other through the simulated network, as its WebSocket would. It also keeps the
// dispatches that came over it, because a handler is not told the fence under which it runs.

import type { DialerEvents, DialTarget, SchedulerDialer } from "@astraflow/runtime";
import type { Connection } from "./connection.ts";
import type { Life } from "./life.ts";
import type { Network } from "./network.ts";
import type { WorkerFace } from "./observation.ts";

/** How long a socket may take to open, and the other end to answer a close. */
const openWaitMs = 10_000;
const closeWaitMs = 1_000;

export class WorkerLine implements SchedulerDialer {
  readonly #face: WorkerFace;
  readonly #life: Life;
  readonly #network: Network;
  readonly #events: DialerEvents;
  readonly #choose: (last: string | null) => string;
  readonly #fences = new Map<string, number>();
  #current: Connection | null = null;
  #scheduler: string | null = null;
  #closing: Promise<void> = Promise.resolve();

  constructor(given: {
    face: WorkerFace;
    life: Life;
    network: Network;
    events: DialerEvents;
    choose: (last: string | null) => string;
  }) {
    this.#face = given.face;
    this.#life = given.life;
    this.#network = given.network;
    this.#events = given.events;
    this.#choose = given.choose;
  }

  dial(hint: DialTarget): void {
    const scheduler = this.#choose(hint === "same" ? this.#scheduler : null);
    this.#scheduler = scheduler;
    const isCurrent = (): boolean => this.#current === connection;
    const connection: Connection = this.#network.dial(this.#face, this.#life, scheduler, {
      opened: () => {
        stopWaiting();
        if (isCurrent()) this.#events.connectionOpened();
      },
      text: (text) => {
        this.#note(text);
        if (isCurrent()) this.#events.messageReceived(text);
      },
      ping: () => connection.worker.pong(),
      pong: () => undefined,
      drained: () => undefined,
      closed: (code, reason) => {
        stopWaiting();
        if (!isCurrent()) return;
        this.#current = null;
        this.#events.connectionLost(`the connection was closed (${code} ${reason})`);
      },
    });
    const stopWaiting = this.#life.after(openWaitMs, () => connection.worker.terminate());
    this.#current = connection;
  }

  send(text: string): void {
    if (!this.#life.isOver) this.#current?.worker.send(text);
  }

  closeConnection(code: number, reason: string): void {
    const connection = this.#current;
    if (connection === null) return;
    this.#current = null;
    const end = connection.worker;
    this.#closing = new Promise((resolve) => {
      const ears = end.ears;
      if (ears === null || end.state === "gone") return resolve();
      const cancel = this.#life.after(closeWaitMs, () => end.terminate());
      end.ears = {
        ...ears,
        closed: () => {
          cancel();
          resolve();
        },
      };
    });
    end.close(code, reason);
  }

  bufferedBytes(): number {
    return this.#current?.worker.out.bufferedBytes ?? 0;
  }

  whenClosed(): Promise<void> {
    return this.#closing;
  }

  /** Under which fence this boot was granted an attempt: every grant has a number of its own. */
  fenceOf(task: string, attempt: number): number {
    return this.#fences.get(`${task}#${attempt}`) ?? -1;
  }

  #note(text: string): void {
    if (!text.includes('"biz.exec.dispatch')) return;
    const { type, payload } = JSON.parse(text) as { type: string; payload: { items?: unknown } };
    if (type === "biz.exec.dispatch") this.#noteDispatch(payload);
    else if (type === "biz.exec.dispatch.batch" && Array.isArray(payload.items))
      for (const item of payload.items) this.#noteDispatch(item);
  }

  #noteDispatch(dispatch: unknown): void {
    const { task_id, attempt, fence } = dispatch as { task_id?: string; attempt?: number; fence?: number };
    if (fence !== undefined) this.#fences.set(`${task_id}#${attempt ?? 1}`, fence);
  }
}
