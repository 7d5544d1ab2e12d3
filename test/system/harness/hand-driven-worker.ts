// A worker that a test drives frame by frame at a real scheduler, in the second version of the session protocol. No test lives here.

import { expect } from "vitest";
import { openRawWorker, type RawFrame, type RawWorkerSocket, sendHandshake } from "./raw-worker-socket.ts";

export interface HandDrivenOptions {
  readonly instance?: string;
  readonly boot?: string;
  readonly slots?: number;
  readonly features?: readonly string[];
  readonly packages?: readonly { readonly name: string; readonly version: string }[];
  readonly running?: readonly { readonly task_id: string; readonly fence: number }[];
}

export class HandDrivenWorker {
  readonly socket: RawWorkerSocket;
  readonly accept: RawFrame;
  readonly #instance: string;
  #number = 0;

  private constructor(socket: RawWorkerSocket, accept: RawFrame, instance: string) {
    this.socket = socket;
    this.accept = accept;
    this.#instance = instance;
  }

  static async join(ws: string, options: HandDrivenOptions = {}): Promise<HandDrivenWorker> {
    const { instance = "w-1", boot = `boot of ${instance}`, slots = 4, features = ["fence", "held"], running = [] } = options;
    const { packages = [{ name: "demo", version: "1.0.0" }] } = options;
    const socket = await openRawWorker(ws, { instance });
    sendHandshake(socket, { mode: "token", token: "dev-token" }, instance);
    await socket.nextFrame("control.ack");
    socket.sendFrame("control.register", {
      capabilities: { concurrency: { max_parallel: slots }, runtimes: ["node"], features },
      packages: packages.map((one) => ({ ...one, status: "installed" })),
      boot_id: boot,
      running,
    });
    return new HandDrivenWorker(socket, await socket.nextFrame("control.session.accept"), instance);
  }

  /** Dials again and asks to continue this session. `more`: other fields than its own. */
  async dialResume(ws: string, more: object = {}): Promise<RawWorkerSocket> {
    const socket = await openRawWorker(ws, { instance: this.#instance });
    const { session_id, session_token } = this.accept.payload;
    socket.sendFrame("control.resume", { session_id, session_token, last_seen_seq: -1, ...more });
    return socket;
  }

  /** The same session on a new socket; `lastSeen`: the number of the last frame that it has. */
  async resume(ws: string, lastSeen: number): Promise<HandDrivenWorker> {
    const socket = await this.dialResume(ws, { last_seen_seq: lastSeen });
    const resumed = new HandDrivenWorker(socket, await socket.nextFrame("control.session.accept"), this.#instance);
    resumed.#number = this.#number;
    return resumed;
  }

  /** The next dispatch. It is not acked yet. */
  nextDispatch(): Promise<RawFrame> {
    return this.socket.nextFrame("biz.exec.dispatch");
  }

  ack(frame: RawFrame): void {
    this.socket.sendFrame("control.ack", { ok: true, for: frame.id, ack_seq: frame.seq }, { ack: undefined });
  }

  async takeDispatch(): Promise<RawFrame> {
    const dispatch = await this.nextDispatch();
    this.ack(dispatch);
    return dispatch;
  }

  /** A numbered frame, as all that are not `control.*`. */
  sendWork(type: string, payload: object, corr?: string): string {
    const number = this.#number;
    this.#number += 1;
    return this.socket.sendFrame(type, payload, { seq: number, ...(corr !== undefined && { corr }) });
  }

  succeed(dispatch: RawFrame, result: object): string {
    return this.sendWork(
      "biz.exec.result",
      { ...attemptOf(dispatch), status: "SUCCEEDED", result, duration_ms: 1 },
      taskOf(dispatch),
    );
  }

  fail(dispatch: RawFrame, code: string, message: string): string {
    return this.sendWork("biz.exec.error", { ...attemptOf(dispatch), code, message }, taskOf(dispatch));
  }

  /** `held`: the dispatches it still works on. */
  beat(held: readonly RawFrame[] = [], more: object = {}): void {
    const tasks = held.map((dispatch) => ({ task_id: taskOf(dispatch), fence: dispatch.payload["fence"] }));
    this.socket.sendFrame("control.heartbeat", { healthy: true, metrics: { inflight: tasks.length }, held: tasks, ...more });
  }

  /** The first ack that covers this frame, by its number or by its id. */
  async untilAcked(id: string): Promise<RawFrame> {
    for (;;) {
      const ack = await this.socket.nextFrame("control.ack");
      if (ack.payload["for"] === id || Number(ack.payload["ack_seq"] ?? -1) >= this.#number - 1) return ack;
    }
  }
}

export const taskOf = (dispatch: RawFrame): string => String(dispatch.payload["task_id"]);

export function attemptOf(dispatch: RawFrame): { run_id: unknown; task_id: unknown; fence: unknown } {
  const { run_id, task_id, fence } = dispatch.payload;
  expect([typeof run_id, typeof task_id, typeof fence]).toEqual(["string", "string", "number"]);
  return { run_id, task_id, fence };
}
