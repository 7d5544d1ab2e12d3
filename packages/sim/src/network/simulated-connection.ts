// A connection between a worker process and a scheduler process as both ends see it: open, texts, pings, the closing handshake, and the ways in which
// real connections end. Faults are applied from outside.

import type { ObservationTrace } from "../kernel/observation-trace.ts";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";
import type { ConnectionObservation, FrameObservation, SimulatedWorkerIdentity } from "../observation/observation.ts";
import { type ChannelEvents, type ChannelItem, type NetworkPath, OneWayChannel } from "./one-way-channel.ts";

export type ConnectionSide = "worker" | "scheduler";

/** What an end's owner hears, inside its process. `closed` once and last; `opened` only where it dialled. */
export interface ConnectionHandlers {
  opened(): void;
  text(text: string): void;
  ping(): void;
  pong(): void;
  drained(): void;
  closed(code: number, reason: string): void;
}

export interface SimulatedConnectionOptions {
  readonly name: string;
  readonly identity: SimulatedWorkerIdentity;
  readonly scheduler: string;
  readonly timeline: Timeline;
  readonly trace: ObservationTrace;
  readonly random: SeededRandom;
  readonly path: NetworkPath;
  readonly nextFrameNumber: () => number;
}

/** One end: "closing" has said goodbye and waits for the answer, "gone" hears nothing any more. */
export class ConnectionEnd {
  readonly side: ConnectionSide;
  readonly #connection: SimulatedConnection;
  state: "waiting" | "open" | "closing" | "gone" = "waiting";
  eventLoop: ProcessEventLoop | null = null;
  handlers: ConnectionHandlers | null = null;
  /** Texts that have arrived while the process did not look. */
  readonly undeliveredItems = new Set<ChannelItem>();

  constructor(side: ConnectionSide, connection: SimulatedConnection) {
    this.side = side;
    this.#connection = connection;
  }

  get outgoing(): OneWayChannel {
    return this.#connection.channelFrom(this.side);
  }

  send(text: string): void {
    if (this.state === "open") this.#connection.sendText(this.side, text);
  }

  ping(): void {
    if (this.state === "open") this.outgoing.send({ what: "ping" });
  }

  pong(): void {
    if (this.state === "open") this.outgoing.send({ what: "pong" });
  }

  close(code: number, reason: string): void {
    if (this.state === "waiting") return this.terminate();
    if (this.state !== "open") return;
    this.state = "closing";
    this.outgoing.send({ what: "close", code, reason });
  }

  /** Tears the socket down; its owner hears `closed` a moment later. */
  terminate(): void {
    if (this.state === "gone") return;
    this.outgoing.send({ what: "reset" });
    this.markClosed(1006, "torn down");
  }

  /** This end is over; its owner is told, if it still lives. */
  markClosed(code: number, reason: string): void {
    if (this.state === "gone") return;
    this.state = "gone";
    this.#connection.recordConnectionEvent(this.side, "closed", `${code} ${reason}`);
    const { handlers } = this;
    this.#connection.timeline.after(0, () => this.eventLoop?.deliver(() => handlers?.closed(code, reason)));
  }

  /** Its process is dead: nobody is there to be told. */
  markProcessEnded(): void {
    if (this.state === "gone") return;
    this.state = "gone";
    this.#connection.recordConnectionEvent(this.side, "closed", "its process ended");
    for (const item of this.undeliveredItems) this.#connection.recordFrame(item, oppositeSide(this.side), "lost");
    this.undeliveredItems.clear();
  }
}

export class SimulatedConnection {
  readonly timeline: Timeline;
  readonly worker = new ConnectionEnd("worker", this);
  readonly scheduler = new ConnectionEnd("scheduler", this);
  readonly #options: SimulatedConnectionOptions;
  readonly #labels: SimulatedWorkerIdentity & { readonly connection: string; readonly scheduler: string };
  readonly #fromWorker: OneWayChannel;
  readonly #fromScheduler: OneWayChannel;

  constructor(options: SimulatedConnectionOptions) {
    const { name, identity, scheduler, timeline, random, path } = options;
    this.timeline = timeline;
    this.#options = options;
    this.#labels = { ...identity, connection: name, scheduler };
    this.#fromWorker = new OneWayChannel(timeline, random.fork("up"), path, this.#channelEventsFor("worker"));
    this.#fromScheduler = new OneWayChannel(timeline, random.fork("down"), path, this.#channelEventsFor("scheduler"));
  }

  /** Every worker machine has an address of its own. */
  get workerAddress(): string {
    return this.#labels.worker;
  }

  get hasEnded(): boolean {
    return this.worker.state === "gone" && (this.scheduler.state === "gone" || this.scheduler.state === "waiting");
  }

  /** By the name of a worker or of a scheduler. */
  belongsTo(process: string): boolean {
    return this.#labels.worker === process || this.#labels.scheduler === process;
  }

  end(side: ConnectionSide): ConnectionEnd {
    return side === "worker" ? this.worker : this.scheduler;
  }

  channelFrom(side: ConnectionSide): OneWayChannel {
    return side === "worker" ? this.#fromWorker : this.#fromScheduler;
  }

  sendText(from: ConnectionSide, text: string): void {
    const item: ChannelItem = { what: "text", text, frame: this.#options.nextFrameNumber() };
    this.recordFrame(item, from, "sent");
    this.channelFrom(from).send(item);
  }

  /** The scheduler has let the worker in. */
  accept(eventLoop: ProcessEventLoop, handlers: ConnectionHandlers): void {
    this.scheduler.eventLoop = eventLoop;
    this.scheduler.handlers = handlers;
    this.scheduler.state = "open";
    this.recordConnectionEvent("scheduler", "opened");
    this.#fromScheduler.send({ what: "open" });
  }

  /** Both ends see the end of it; what is on its way is lost (a reset) or still arrives (a cut). */
  disconnectBothEnds(isReset: boolean): void {
    if (isReset) {
      this.#fromWorker.dropAll();
      this.#fromScheduler.dropAll();
      this.worker.markClosed(1006, "connection reset");
      this.scheduler.markClosed(1006, "connection reset");
      return;
    }
    this.#fromWorker.send({ what: "reset" });
    this.#fromScheduler.send({ what: "reset" });
  }

  /** One end sees the end of it, the other never hears. */
  disconnectOneEnd(notified: ConnectionSide): void {
    this.#goSilent();
    this.end(notified).markClosed(1006, "the network is gone");
  }

  /** The worker sees the end of it at once; what it had sent still arrives, but late, and then the scheduler sees the end too. */
  disconnectWithLateDelivery(ms: number): void {
    this.#fromWorker.setReading(false);
    this.#fromScheduler.goSilent();
    this.worker.markClosed(1006, "the network is gone");
    this.#fromWorker.send({ what: "reset" });
    this.timeline.after(ms, () => this.#fromWorker.setReading(true));
  }

  /** A process died. Its kernel says so to the other end, unless the whole machine is gone. */
  handleProcessEnd(side: ConnectionSide, isPowerLoss: boolean): void {
    this.end(side).markProcessEnded();
    if (isPowerLoss) this.#goSilent();
    else this.channelFrom(side).send({ what: "reset" });
  }

  #goSilent(): void {
    this.#fromWorker.goSilent();
    this.#fromScheduler.goSilent();
  }

  deliverReady(): void {
    this.#fromWorker.deliverReady();
    this.#fromScheduler.deliverReady();
  }

  recordFrame(item: ChannelItem, from: ConnectionSide, event: FrameObservation["event"]): void {
    if (item.what !== "text") return;
    const toward = oppositeSide(from);
    this.#options.trace.record({ kind: "frame", ...this.#labels, toward, event, frame: item.frame, text: item.text });
  }

  recordConnectionEvent(side: ConnectionSide, event: ConnectionObservation["event"], detail?: string): void {
    this.#options.trace.record({ kind: "link", ...this.#labels, event, side, ...(detail !== undefined && { detail }) });
  }

  #channelEventsFor(from: ConnectionSide): ChannelEvents {
    return {
      onDelivered: (item) => this.#handleArrival(item, from),
      onLost: (item) => this.recordFrame(item, from, "lost"),
      onDrained: () => this.end(from).eventLoop?.deliver(() => this.end(from).handlers?.drained()),
    };
  }

  #handleArrival(item: ChannelItem, from: ConnectionSide): void {
    const to = this.end(oppositeSide(from));
    if (to.state === "gone" || to.eventLoop === null || to.eventLoop.hasEnded) return this.recordFrame(item, from, "lost");
    to.undeliveredItems.add(item);
    to.eventLoop.deliver(() => {
      to.undeliveredItems.delete(item);
      this.#handleItem(item, to, from);
    });
  }

  #handleItem(item: ChannelItem, to: ConnectionEnd, from: ConnectionSide): void {
    if (to.state === "gone") return this.recordFrame(item, from, "lost");
    switch (item.what) {
      case "open":
        if (to.state !== "waiting") return;
        to.state = "open";
        this.recordConnectionEvent(to.side, "opened");
        return to.handlers?.opened();
      case "text":
        // After its own goodbye an end reads on only to find the answer to it.
        if (to.state !== "open") return this.recordFrame(item, from, "lost");
        this.recordFrame(item, from, "delivered");
        return to.handlers?.text(item.text);
      case "ping":
        return to.handlers?.ping();
      case "pong":
        return to.handlers?.pong();
      case "close":
        to.outgoing.send({ what: "closed", code: item.code, reason: item.reason });
        return to.markClosed(item.code, item.reason);
      case "closed":
        return to.markClosed(item.code, item.reason);
      case "reset":
        return to.markClosed(1006, "connection reset by peer");
    }
  }
}

const oppositeSide = (side: ConnectionSide): ConnectionSide => (side === "worker" ? "scheduler" : "worker");
