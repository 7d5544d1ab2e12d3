// What the connections of all older workers have in common: dialling, pings, the envelope of a frame. A socket that does not open in time is
// given up, and frames from an earlier socket are ignored. The dialects are in first-generation-link.ts, v1-link.ts and basic-link.ts.

import type { SimulatedConnection } from "../../network/simulated-connection.ts";
import { createManifest, simPackage } from "../../plan/simulated-package.ts";
import type { CommonWorkerOptions } from "../worker-process.ts";

export interface LegacyFrame {
  readonly type: string;
  readonly id: string;
  readonly corr?: string;
  readonly seq?: number;
  readonly session_seq?: number;
  readonly ack?: { readonly for?: string; readonly request?: boolean };
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface LegacyLinkOptions extends CommonWorkerOptions {
  /** The approximate time between two heartbeats, and before the first. */
  readonly heartbeatMs: number;
  readonly countInFlight: () => number;
  readonly onDispatch: (frame: LegacyFrame) => void;
  /** The scheduler sent a frame that workers of this dialect cannot read. */
  readonly onUnreadableFrame: (problem: string) => void;
}

export interface TaskFrameOptions {
  readonly corr?: string;
  readonly seq?: number;
  /** Whether an ack is asked for. */
  readonly isAsked: boolean;
}

interface UnackedFrame {
  readonly text: string;
  readonly id: string;
  /** Its transport number, where the dialect has one. */
  readonly number: number | null;
  sendCount: number;
}

const openWaitMs = 10_000;
export const askedForAck = { ack: { request: true } };
/** What was not acked is sent again after these times. */
export const resendMs: readonly number[] = [200, 400, 800, 1_600, 3_200, 5_000];

export abstract class LegacyLink {
  protected readonly options: LegacyLinkOptions;
  protected connection: SimulatedConnection | null = null;
  protected isOpen = false;
  protected dialAttempts = 0;
  protected readonly unacked = new Map<string, UnackedFrame>();
  #frameCount = 0;
  #isPingAnswered = true;

  constructor(options: LegacyLinkOptions) {
    this.options = options;
  }

  /** Returns false where the frame could not be sent and is lost. */
  abstract sendTaskFrame(type: string, payload: object, options: TaskFrameOptions): boolean;

  protected abstract handleOpen(connection: SimulatedConnection): void;
  protected abstract handleText(text: string): void;
  /** How long a frame that was sent so often waits for its ack after the next time; undefined where it is given up. */
  protected abstract resendDelayMs(sendCount: number): number | undefined;
  /** Returns the time to wait before the next dial. */
  protected abstract handleDisconnect(): number;

  dial(): void {
    const { network, identity, eventLoop, chooseScheduler } = this.options;
    const isCurrent = (): boolean => this.connection === connection;
    const connection: SimulatedConnection = network.dial(identity, eventLoop, chooseScheduler(null), {
      opened: () => {
        stopWaiting();
        if (!isCurrent()) return;
        this.isOpen = this.#isPingAnswered = true;
        this.handleOpen(connection);
      },
      text: (text) => {
        if (isCurrent()) this.handleText(text);
      },
      ping: () => connection.worker.pong(),
      pong: () => void (this.#isPingAnswered = true),
      drained: () => undefined,
      closed: () => {
        stopWaiting();
        if (!isCurrent()) return;
        this.connection = null;
        this.isOpen = false;
        eventLoop.after(this.handleDisconnect(), () => {
          if (this.connection === null) this.dial();
        });
      },
    });
    const stopWaiting = eventLoop.after(openWaitMs, () => connection.worker.terminate());
    this.connection = connection;
  }

  hangUp(): void {
    const connection = this.connection;
    this.connection = null;
    this.isOpen = false;
    connection?.worker.close(1000, "bye");
  }

  protected isCurrent(connection: SimulatedConnection): boolean {
    return this.connection === connection && this.isOpen;
  }

  /** The worker's socket library sends a ping now and then, and gives up the socket when the last one was not answered. */
  protected schedulePing(connection: SimulatedConnection): void {
    const { eventLoop, heartbeatMs } = this.options;
    eventLoop.after((heartbeatMs * 20) / 35, () => {
      if (!this.isCurrent(connection)) return;
      if (!this.#isPingAnswered) return connection.worker.terminate();
      this.#isPingAnswered = false;
      connection.worker.ping();
      this.schedulePing(connection);
    });
  }

  protected sendText(text: string): void {
    if (this.isOpen) this.connection?.worker.send(text);
  }

  /** Sends a frame, and sends it again until it is acked or given up. */
  protected sendUntilAcked(type: string, payload: object, more: object, number: number | null = null): void {
    const frame = this.createFrame(type, payload, more, number);
    this.unacked.set(frame.id, frame);
    this.#transmit(frame);
  }

  #transmit(frame: UnackedFrame): void {
    if (!this.unacked.has(frame.id)) return;
    const waitMs = this.resendDelayMs(frame.sendCount);
    if (waitMs === undefined) return void this.unacked.delete(frame.id);
    this.sendText(frame.text);
    frame.sendCount++;
    this.options.eventLoop.after(waitMs, () => this.#transmit(frame));
  }

  protected heartbeatDelayMs(): number {
    return this.options.heartbeatMs * (30 / 35 + (this.options.random.random() * 5) / 35);
  }

  protected nextFrameId(type: string): string {
    return `${type}-${this.#frameCount++}`;
  }

  protected createFrame(
    type: string,
    payload: object,
    more: object,
    number: number | null = null,
    id = this.nextFrameId(type),
  ): UnackedFrame {
    const { identity, eventLoop } = this.options;
    const ts = new Date(eventLoop.clock.wall()).toISOString();
    const sender = { role: "worker", id: identity.instance };
    const text = JSON.stringify({ type, id, ts, tenant: identity.tenant, sender, ...more, payload });
    return { text, id, number, sendCount: 0 };
  }

  /** The part of a register that is the same in all these dialects. */
  protected registerPayload(): { capabilities: object; packages: object[]; manifests: object[] } {
    const { slots, perNodeLimits, nodeTypes } = this.options.spec;
    const concurrency = { max_parallel: slots, ...(perNodeLimits !== undefined && { per_node_limits: perNodeLimits }) };
    const { name, version } = simPackage;
    return {
      capabilities: { concurrency, runtimes: ["python"], features: [] },
      packages: [{ name, version, status: "installed" }],
      manifests: [{ name, version, manifest: createManifest(nodeTypes) }],
    };
  }
}
