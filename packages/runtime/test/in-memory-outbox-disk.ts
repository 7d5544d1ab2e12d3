// A disk in memory that behaves like a real one: what was not synced may be lost, any call may fail, and every call is written down.

import type { OutboxDisk } from "../src/outbox/outbox-file.ts";

type DiskCall = keyof OutboxDisk;

export class InMemoryOutboxDisk implements OutboxDisk {
  /** As a reader sees it, and as it survives a power cut. */
  file: Buffer | null = null;
  durable: Buffer | null = null;
  readonly movedAside = new Map<string, Buffer>();
  /** Finished calls, in order. */
  readonly finishedCalls: DiskCall[] = [];
  readonly #failures = new Map<DiskCall, { problem: Error; left: number; isDone: boolean }>();
  readonly #blocked = new Map<DiskCall, Promise<void>>();

  /** So many calls of this kind fail. A failing append writes half; with `isDone` the call does its work and fails all the same. */
  failNextCalls(call: DiskCall, code: string, left = 1, isDone = false): void {
    const problem = Object.assign(new Error(`${code}: ${call}`), { code });
    this.#failures.set(call, { problem, left, isDone });
  }

  stopFailing(): void {
    this.#failures.clear();
  }

  /** Calls of this kind wait until the answer is called. */
  blockCalls(call: DiskCall): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#blocked.set(call, promise);
    return () => {
      this.#blocked.delete(call);
      resolve();
    };
  }

  /** The machine loses its power: only what was synced is left. */
  cutPower(): void {
    this.file = this.durable === null ? null : Buffer.from(this.durable);
  }

  read = () => this.#runCall("read", () => (this.file === null ? null : new Uint8Array(this.file)));

  append = (bytes: Uint8Array) =>
    this.#runCall(
      "append",
      () => this.#write(bytes),
      () => this.#write(bytes.subarray(0, bytes.length >> 1)),
    );

  sync = () =>
    this.#runCall("sync", () => {
      this.durable = this.file;
    });

  truncate = (bytes: number) =>
    this.#runCall("truncate", () => {
      this.file = Buffer.from((this.file ?? Buffer.alloc(0)).subarray(0, bytes));
    });

  replace = (bytes: Uint8Array) =>
    this.#runCall("replace", () => {
      this.file = Buffer.from(bytes);
      this.durable = this.file;
    });

  setAside = (suffix: string) =>
    this.#runCall("setAside", () => {
      this.movedAside.set(suffix, this.file ?? Buffer.alloc(0));
      this.file = null;
      this.durable = null;
    });

  #write(bytes: Uint8Array): void {
    this.file = Buffer.concat([this.file ?? Buffer.alloc(0), bytes]);
  }

  async #runCall<T>(call: DiskCall, work: () => T, half: () => void = () => {}): Promise<T> {
    await this.#blocked.get(call);
    const failure = this.#failures.get(call);
    if (failure !== undefined && failure.left > 0) {
      failure.left--;
      if (failure.isDone) work();
      else half();
      throw failure.problem;
    }
    const answer = work();
    this.finishedCalls.push(call);
    return answer;
  }
}
