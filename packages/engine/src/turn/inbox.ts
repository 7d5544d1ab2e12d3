// Commands that wait for a turn: reports of workers before requests of callers, so that finished work never queues behind new work.

import { FifoQueue } from "@astraflow/protocol";
import type { Command } from "../interface/command.ts";
import type { Millis, RunId, Tenant } from "../storage/rows.ts";

export interface WaitingCommand {
  readonly ref: number;
  readonly command: Command;
  readonly bytes: number;
  /** Store time when it arrived, as far as the engine knew. */
  readonly at: Millis;
  /** Id for what a `run.start` will make, chosen once so that every try makes the same run. */
  newRunId: RunId | null;
  /** Turns it was part of whose commit failed. */
  failedCommits: number;
  /** Turns it was left out of because another held a root of it. */
  busyTurns: number;
  /** Suspected of poisoning its turn: decided alone. */
  isDecidedAlone: boolean;
  /** The session it belongs to has ended since it arrived. */
  isSessionGone: boolean;
}

type TenantQueues = Map<Tenant, FifoQueue<WaitingCommand>>;

/** Tenants alternate, so that one flood does not make the others wait; commands of one tenant and lane keep their order. */
export class CommandInbox {
  readonly #workerCommands: TenantQueues = new Map();
  readonly #callerCommands: TenantQueues = new Map();
  /** Deferred by an earlier turn: they go first, in their old order. */
  #returned: WaitingCommand[] = [];
  #size = 0;

  get size(): number {
    return this.#size + this.#returned.length;
  }

  push(item: WaitingCommand): void {
    const lane = item.command.type.startsWith("run.") ? this.#callerCommands : this.#workerCommands;
    const { tenant } = item.command;
    let queue = lane.get(tenant);
    if (queue === undefined) lane.set(tenant, (queue = new FifoQueue<WaitingCommand>()));
    queue.push(item);
    this.#size++;
  }

  putBack(items: readonly WaitingCommand[]): void {
    this.#returned = [...items, ...this.#returned];
  }

  /** The next batch: a suspect alone; a quarter is reserved for callers while any wait. What is not clear keeps its place. */
  take(most: number, bytesMost: number, isClear: ((item: WaitingCommand) => boolean) | null): WaitingCommand[] {
    const batch = this.#next(most, bytesMost);
    if (isClear === null) return batch;
    const [clear, held]: [WaitingCommand[], WaitingCommand[]] = [[], []];
    for (const item of batch) (isClear(item) ? clear : held).push(item);
    this.putBack(held);
    return clear;
  }

  #next(most: number, bytesMost: number): WaitingCommand[] {
    const suspect = this.#returned.findIndex((item) => item.isDecidedAlone);
    if (suspect >= 0) return this.#returned.splice(suspect, 1);
    const batch = this.#returned.splice(0, most);
    const room = { count: most - batch.length, bytes: bytesMost };
    this.#drain(this.#workerCommands, batch, room, Math.min(this.#waitingIn(this.#callerCommands), most >> 2));
    this.#drain(this.#callerCommands, batch, room, 0);
    return batch;
  }

  #waitingIn(lane: TenantQueues): number {
    let count = 0;
    for (const queue of lane.values()) count += queue.size;
    return count;
  }

  /** One command of each tenant in turn until the batch is full, except for the `kept` reserved places. */
  #drain(lane: TenantQueues, batch: WaitingCommand[], room: { count: number; bytes: number }, kept: number): void {
    while (lane.size > 0) {
      for (const [tenant, queue] of lane) {
        const item = queue.peek();
        if (item === undefined) {
          lane.delete(tenant);
          continue;
        }
        // One command is always taken, however large: the door has limited its size.
        if (room.count <= kept || (room.bytes < item.bytes && batch.length > 0)) {
          // Next time it is this tenant's turn first.
          this.#rotate(lane, tenant);
          return;
        }
        queue.shift();
        this.#size--;
        room.count--;
        room.bytes -= item.bytes;
        batch.push(item);
      }
    }
  }

  #rotate(lane: TenantQueues, first: Tenant): void {
    for (const [tenant, queue] of [...lane]) {
      if (tenant === first) return;
      lane.delete(tenant);
      lane.set(tenant, queue);
    }
  }

  /** When the oldest waiting report arrived; Infinity when none waits. */
  oldestWorkerCommandAt(): Millis {
    let oldest = Number.POSITIVE_INFINITY;
    for (const item of this.#returned) if (!item.command.type.startsWith("run.")) oldest = Math.min(oldest, item.at);
    for (const queue of this.#workerCommands.values()) oldest = Math.min(oldest, queue.peek()?.at ?? oldest);
    return oldest;
  }

  /** Everything, for the last answer. */
  drainAll(): WaitingCommand[] {
    const all = this.#returned.splice(0);
    for (const lane of [this.#workerCommands, this.#callerCommands])
      for (const queue of lane.values()) all.push(...queue.drain());
    this.#workerCommands.clear();
    this.#callerCommands.clear();
    this.#size = 0;
    return all;
  }
}

/** Joins that were requested and are not stored yet: one whose session ends meanwhile must not take the worker from where it is by then. */
export class PendingWorkerJoins {
  readonly #bySession = new Map<string, WaitingCommand>();

  /** A command has arrived. A leave cancels the join of its session that still waits. */
  commandArrived(item: WaitingCommand): void {
    const { command } = item;
    if (command.type === "worker.join") this.#bySession.set(command.session, item);
    if (command.type !== "worker.leave") return;
    const join = this.#bySession.get(command.session);
    if (join !== undefined) join.isSessionGone = true;
    this.#bySession.delete(command.session);
  }

  /** A turn with these commands is on disk. The same session may have been joined again since, on a newer socket: that one still waits. */
  turnCommitted(items: readonly WaitingCommand[]): void {
    for (const item of items)
      if (item.command.type === "worker.join" && this.#bySession.get(item.command.session) === item)
        this.#bySession.delete(item.command.session);
  }
}

const notTriedYet = { newRunId: null, failedCommits: 0, busyTurns: 0, isDecidedAlone: false, isSessionGone: false };

export function newWaitingCommand(ref: number, command: Command, at: Millis): WaitingCommand {
  return { ref, command, bytes: approximateBytes(command), at, ...notTriedYet };
}

/** Rough size of a command, enough to bound a turn: the long texts in it. */
function approximateBytes(command: Command): number {
  if (command.type === "run.start") return command.body.length + 256;
  if (command.type === "task.result") return command.result.length + 256;
  if (command.type === "worker.tell") return command.frame.payload.length + 256;
  return 256;
}
