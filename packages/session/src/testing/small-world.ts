// All states that two streams and a bad network between them can reach: copies are lost, doubled and reordered at will, sockets are
// cut, sessions resume or are refused. Within the bounds below nothing is left out: the network is a set of messages, each of which
// may arrive any number of times, at any moment, or vanish. The ends and what must hold at them are in small-ends.ts.

import assert from "node:assert";
import { type OpenStream, SmallEnds } from "./small-ends.ts";

export interface Scope {
  readonly window: number;
  readonly frames: number;
  /** Unlike acks that may be under way at once. */
  readonly acksMax: number;
  /** Sessions that may end in a refused resume. */
  readonly refusalsMax: number;
}

/** One state of the world. Sets are bits: `copies` by number, `settled` by label. */
interface World {
  readonly sender: number;
  readonly receiver: number;
  readonly copies: number;
  /** Ascending. */
  readonly acks: readonly number[];
  /** Labels that were ever settled, in any session. */
  readonly settled: number;
  readonly refusals: number;
  readonly isCut: boolean;
}

export interface Explored {
  readonly states: number;
  readonly moves: number;
  readonly senders: number;
  readonly receivers: number;
}

export class SmallWorld {
  private readonly scope: Scope;
  private readonly ends: SmallEnds;
  private readonly seen = new Map<number, Set<number>>();
  private readonly finishing = new Map<number, Set<number>>();
  private states = 0;
  private moves = 0;

  constructor(scope: Scope, open?: OpenStream) {
    this.scope = scope;
    this.ends = new SmallEnds(scope.window, open);
  }

  /** Walks through every state there is, and from each to the end by a calm way. */
  explore(): Explored {
    const { frames } = this.scope;
    const labels = Array.from({ length: frames }, (_, label) => label);
    const start = { copies: 0, acks: [], settled: 0, refusals: 0, isCut: false };
    const open: World[] = [];
    const enter = (world: World): void => {
      this.moves += 1;
      const tidy = this.tidy(world);
      if (!mark(this.seen, tidy)) return;
      this.states += 1;
      this.walkCalmly(tidy);
      open.push(tidy);
    };
    enter({ ...start, sender: this.ends.openSender(labels), receiver: this.ends.openReceiver() });
    for (let world = open.pop(); world !== undefined; world = open.pop()) this.eachNext(world, enter);
    return { states: this.states, moves: this.moves, ...this.ends.sizes };
  }

  private eachNext(world: World, enter: (next: World) => void): void {
    const { ends } = this;
    for (const number of ends.unsettled(world.receiver)) enter(this.settle(world, number));
    if (world.isCut) {
      enter(this.resume(world));
      if (world.refusals < this.scope.refusalsMax) enter(this.refuse(world));
      return;
    }
    enter(this.cut(world));
    enter(this.leave(world, ends.send(world.sender)));
    enter(this.leave(world, ends.repeat(world.sender)));
    for (let number = 0; world.copies >> number > 0; number += 1) {
      if (((world.copies >> number) & 1) === 0) continue;
      enter(this.arrive(world, number));
      enter(drop(world, number));
    }
    if (ends.isOwing(world.receiver) && world.acks.length < this.scope.acksMax) enter(this.ack(world));
    for (const ack of world.acks) {
      enter(this.hear(world, ack));
      enter({ ...world, acks: world.acks.filter((one) => one !== ack) });
    }
  }

  /**
   * One way to the end in which nothing bad happens any more. Every state must have it; a way that meets one that is known to have
   * it ends there.
   */
  private walkCalmly(from: World): void {
    const way: World[] = [];
    for (let world = from; !this.isOver(world); world = this.tidy(this.stepCalmly(world))) {
      if (!mark(this.finishing, world)) {
        assert(!way.some((one) => keyOf(one) === keyOf(world) && pairOf(one) === pairOf(world)), "goes round in circles");
        return;
      }
      way.push(world);
    }
  }

  private stepCalmly(world: World): World {
    const { ends } = this;
    const [number] = ends.unsettled(world.receiver);
    if (number !== undefined) return this.settle(world, number);
    if (world.isCut) return this.resume(world);
    const [ack] = world.acks;
    if (ack !== undefined) return { ...this.hear(world, ack), acks: world.acks.slice(1) };
    if (world.copies > 0) {
      const lowest = Math.log2(world.copies & -world.copies);
      return drop(this.arrive(world, lowest), lowest);
    }
    if (ends.isOwing(world.receiver)) return this.ack(world);
    const sent = ends.send(world.sender);
    return this.leave(world, sent.out.leave > 0 ? sent : ends.repeat(world.sender));
  }

  private isOver(world: World): boolean {
    if (this.ends.leftOf(world.sender).length > 0) return false;
    assert.equal(world.settled, 2 ** this.scope.frames - 1, "the sender is done and something was not settled");
    return true;
  }

  private leave(world: World, { next, out }: ReturnType<SmallEnds["send"]>): World {
    return { ...world, sender: next, copies: world.copies | out.leave };
  }

  private arrive(world: World, number: number): World {
    return { ...world, receiver: this.ends.arrive(world.receiver, world.sender, number) };
  }

  private settle(world: World, number: number): World {
    const { next, label } = this.ends.settle(world.receiver, number);
    return { ...world, receiver: next, settled: world.settled | (1 << label) };
  }

  private ack(world: World): World {
    const { next, out } = this.ends.ack(world.receiver);
    return { ...world, receiver: next, acks: withAck(world.acks, out) };
  }

  private hear(world: World, ack: number): World {
    const { next, out } = this.ends.hear(world.sender, ack);
    assert.equal(out.acked & ~world.settled, 0, "acked and not settled");
    return { ...world, sender: next };
  }

  private cut(world: World): World {
    const { ends } = this;
    const sender = ends.pauseSender(world.sender);
    return { ...world, sender, receiver: ends.pauseReceiver(world.receiver), copies: 0, acks: [], isCut: true };
  }

  private resume(world: World): World {
    const sent = this.ends.resumeSender(world.sender, this.ends.lastSeen(world.receiver));
    const { next, out } = this.ends.resumeReceiver(world.receiver);
    return this.leave({ ...world, receiver: next, acks: [out], isCut: false }, sent);
  }

  /** A fresh session: what was not acked is offered again, and what was handed up and not settled is forgotten. */
  private refuse(world: World): World {
    const sender = this.ends.openSender(this.ends.leftOf(world.sender));
    return { ...world, sender, receiver: this.ends.openReceiver(), refusals: world.refusals + 1, isCut: false };
  }

  /** Leaves out what can do nothing any more: acks without news, and all but one of the copies that were here before. */
  private tidy(world: World): World {
    const { ends } = this;
    let { copies } = world;
    let hasOld = false;
    for (let number = 0; copies >> number > 0; number += 1) {
      if (((copies >> number) & 1) === 0 || !ends.hasSeen(world.receiver, number)) continue;
      if (hasOld) copies &= ~(1 << number);
      hasOld = true;
    }
    const acks = world.acks.filter((ack) => ends.hear(world.sender, ack).next !== world.sender);
    return { ...world, copies, acks };
  }
}

const drop = (world: World, number: number): World => ({ ...world, copies: world.copies & ~(1 << number) });

const withAck = (acks: readonly number[], ack: number): number[] => [...new Set([...acks, ack])].toSorted((a, b) => a - b);

const pairOf = (world: World): number => world.sender * 2 ** 20 + world.receiver;

/** 6 bits of copies, 6 of labels, 2 of refusals, 1 for the cut and 8 for each of two acks: small integers, which sets keep cheaply. */
function keyOf({ copies, acks, settled, refusals, isCut }: World): number {
  let key = copies | (settled << 6) | (refusals << 12) | (Number(isCut) << 14);
  acks.forEach((ack, at) => {
    key += (ack + 1) * 2 ** (15 + 8 * at);
  });
  return key;
}

/** False if it was there. */
function mark(worlds: Map<number, Set<number>>, world: World): boolean {
  const pair = pairOf(world);
  const keys = worlds.get(pair) ?? new Set();
  if (keys.size === 0) worlds.set(pair, keys);
  const key = keyOf(world);
  if (keys.has(key)) return false;
  keys.add(key);
  return true;
}
