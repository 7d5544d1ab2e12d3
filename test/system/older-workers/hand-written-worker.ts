// A worker written by hand on a plain socket, with nothing of our own code: what a document about the protocol prints, in four readings of it.
// No test lives here.

import { randomUUID } from "node:crypto";
import type { Workflow } from "@astraflow/protocol";
import { WebSocket } from "ws";

/** specification: protocol 1 and `seq`. first: protocol 1 and `session_seq`. v1: the oldest names. v2: protocol 2 with every extension. */
export type Reading = "specification" | "first" | "v1" | "v2";

interface HandFrame {
  readonly type: string;
  readonly id: string;
  readonly corr?: string;
  readonly seq?: number;
  readonly session_seq?: number;
  readonly ack?: { readonly request?: boolean };
  readonly payload: Record<string, unknown>;
}

const v1Names: Readonly<Record<string, string>> = {
  "control.handshake": "handshake",
  "control.register": "register",
  "control.ack": "ack",
  "control.heartbeat": "heartbeat",
  "biz.exec.dispatch": "cmd.dispatch",
  "biz.exec.feedback": "feedback",
  "biz.exec.result": "result",
};

const everyFeature = ["fence", "cancel", "held", "batch", "wide", "undrain", "renew", "resources"];

export interface HandWrittenWorkerOptions {
  readonly reading: Reading;
  readonly packageName: string;
  readonly slots?: number;
}

export class HandWrittenWorker {
  readonly received: HandFrame[] = [];
  readonly #url: string;
  readonly #reading: Reading;
  readonly #instance: string;
  readonly #packageName: string;
  readonly #slots: number;
  #socket: WebSocket | null = null;
  #session: { readonly id: string; readonly token: string } | null = null;
  #count = 0;
  #nextNumber: number;
  #lastReceived = -1;
  /** Where a dispatch waits for `finish`. */
  readonly #held: HandFrame[] = [];
  isHolding = false;
  /** What it registers besides its own package. */
  readonly otherPackages: { readonly name: string; readonly version: string }[] = [];
  readonly #listeners = new Set<() => void>();

  constructor(url: string, { reading, packageName, slots = 2 }: HandWrittenWorkerOptions) {
    this.#url = url;
    this.#reading = reading;
    this.#instance = `hand-${reading}`;
    this.#packageName = packageName;
    this.#slots = slots;
    this.#nextNumber = reading === "first" ? 1 : 0;
  }

  get instance(): string {
    return this.#instance;
  }

  get isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** How many frames of this type it has received. */
  count(type: string): number {
    return this.received.filter((frame) => frame.type === this.#name(type)).length;
  }

  /** Dials and comes back with a session: by a resume where it has one that can be resumed, else by handshake and register. */
  async connect(): Promise<{ readonly resumed: boolean }> {
    const canResume = this.#reading === "specification" || this.#reading === "v2";
    await this.#open();
    const from = this.received.length;
    if (this.#session !== null && canResume) {
      const payload = { session_id: this.#session.id, session_token: this.#session.token, last_seen_seq: this.#lastReceived };
      this.#send("control.resume", payload, { ack: { request: true } });
    } else {
      this.#nextNumber = this.#reading === "first" ? 1 : 0;
      this.#lastReceived = -1;
      this.#send("control.handshake", this.#handshake(), { ack: { request: true } });
      await this.until(() => this.#saw("control.ack", from) !== undefined);
      this.#send("control.register", this.#register(), { ack: { request: true } });
    }
    if (this.#reading === "v1") await this.until(() => this.received.slice(from).filter(({ type }) => type === "ack").length > 1);
    else await this.until(() => this.#saw("control.session.accept", from) !== undefined);
    const accept = this.#saw("control.session.accept", from)?.payload;
    if (accept !== undefined) this.#session = { id: String(accept["session_id"]), token: String(accept["session_token"]) };
    this.#send("control.heartbeat", { healthy: true });
    return { resumed: accept?.["resumed"] === true };
  }

  /** The network fails: no close is seen by the other end until its socket breaks. */
  cut(): void {
    this.#socket?.terminate();
    this.#socket = null;
  }

  close(): void {
    this.#socket?.close(1000);
  }

  /** Ends the task whose dispatch is held. */
  finish(): void {
    this.isHolding = false;
    for (const dispatch of this.#held.splice(0)) this.#sendResult(dispatch);
  }

  get heldCount(): number {
    return this.#held.length;
  }

  until(isTrue: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!isTrue()) return;
        this.#listeners.delete(check);
        resolve();
      };
      this.#listeners.add(check);
      check();
    });
  }

  // ---- frames

  #saw(type: string, from: number): HandFrame | undefined {
    return this.received.slice(from).find((frame) => frame.type === this.#name(type));
  }

  #name(type: string): string {
    return this.#reading === "v1" ? (v1Names[type] ?? type) : type;
  }

  async #open(): Promise<void> {
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.on("message", (data) => {
      if (this.#socket === socket) this.#receive(JSON.parse(String(data)) as HandFrame);
    });
    await new Promise<void>((resolve, reject) => {
      socket.once("open", () => resolve());
      socket.on("error", reject);
    });
  }

  #handshake(): object {
    const about = { version: "1.0.0", hostname: "box" };
    const named = { worker_name: this.#instance, worker_instance_id: this.#instance, ...about };
    const auth = { mode: "token", token: "dev-token" };
    return {
      protocol: this.#reading === "v2" ? 2 : 1,
      auth,
      worker: this.#reading === "v1" ? { id: this.#instance, ...about } : named,
    };
  }

  /** The specification alone has capabilities and nothing else. */
  #register(): object {
    const features = this.#reading === "v2" ? everyFeature : [];
    const capabilities = { concurrency: { max_parallel: this.#slots }, runtimes: ["python"], features };
    const own = { name: this.#packageName, version: "1.0.0" };
    const packages = [own, ...this.otherPackages].map((one) => ({ ...one, status: "installed" }));
    if (this.#reading === "specification") return { capabilities };
    return { capabilities, packages, ...(this.#reading === "v2" && { boot_id: "boot-1", running: [] }) };
  }

  #receive(frame: HandFrame): void {
    this.received.push(frame);
    const number = this.#reading === "first" ? frame.session_seq : frame.seq;
    const isDispatch = frame.type === this.#name("biz.exec.dispatch");
    const isWork = isDispatch || frame.type.startsWith("biz.");
    if (isWork && this.#reading !== "v1" && number !== undefined) this.#lastReceived = Math.max(this.#lastReceived, number);
    if (isWork) this.#ack(frame);
    const items = frame.type === "biz.exec.dispatch.batch" ? (frame.payload["items"] as HandFrame["payload"][]) : [];
    for (const payload of isDispatch ? [frame.payload] : items) this.#handleDispatch({ ...frame, payload });
    for (const listener of [...this.#listeners]) listener();
  }

  #ack(frame: HandFrame): void {
    const named = { ok: true, for: frame.id };
    const window = { ack_seq: Math.max(0, this.#lastReceived), ack_bitmap: 0, recv_window: 64 };
    this.#send("control.ack", this.#reading === "v1" ? named : { ...named, ...window }, { ack: { for: frame.id } });
  }

  #handleDispatch(dispatch: HandFrame): void {
    const { run_id, task_id, fence } = dispatch.payload;
    const feedback = { run_id, task_id, fence, stage: "running", chunks: [{ channel: "browser", text: "page opened" }] };
    this.#sendWork("biz.exec.feedback", feedback, dispatch);
    if (this.isHolding) this.#held.push(dispatch);
    else this.#sendResult(dispatch);
  }

  #sendResult(dispatch: HandFrame): void {
    const { run_id, task_id, fence, parameters } = dispatch.payload;
    const text = String((parameters as { text?: unknown }).text).toUpperCase();
    this.#sendWork("biz.exec.result", { run_id, task_id, fence, status: "SUCCEEDED", result: { text } }, dispatch);
  }

  #sendWork(type: string, payload: object, dispatch: HandFrame): void {
    const number = this.#nextNumber++;
    const numbers = {
      specification: { seq: number },
      v2: { seq: number },
      first: { session_seq: number, seq: dispatch.seq },
      v1: { seq: dispatch.seq },
    };
    const corr = this.#reading === "first" ? dispatch.id : String(dispatch.payload["task_id"]);
    this.#send(type, payload, { corr, ...numbers[this.#reading], ack: { request: true } });
  }

  #send(type: string, payload: object, more: object = {}): void {
    const sender = { role: "worker", id: this.#instance };
    const id = `${this.#name(type)}-${this.#count++}`;
    this.#socket?.send(
      JSON.stringify({ type: this.#name(type), id, ts: new Date().toISOString(), tenant: "default", sender, ...more, payload }),
    );
  }
}

/** Nodes in a row, each given the text of the one before. */
export function chainOfHandTasks(packageName: string, text: string, count = 3): Workflow {
  const ids = Array.from({ length: count }, () => randomUUID());
  const port = (key: string, path: string) => [{ key, label: key, binding: { path, mode: "two_way" } }];
  return {
    id: randomUUID(),
    schemaVersion: "2025-10",
    metadata: { name: "in a row" },
    nodes: ids.map((id, index) => ({
      id,
      type: `${packageName}.upper`,
      package: { name: packageName, version: "1.0.0" },
      status: "published",
      category: "Texts",
      label: "upper",
      position: { x: index * 200, y: 0 },
      parameters: index === 0 ? { text } : {},
      ui: { inputPorts: port("in", "parameters.text"), outputPorts: port("out", "results.text"), widgets: [] },
    })),
    edges: ids.slice(1).map((id, at) => ({
      id: `e${at}`,
      source: { node: ids[at] as string, port: "out" },
      target: { node: id, port: "in" },
    })),
  } as Workflow;
}
