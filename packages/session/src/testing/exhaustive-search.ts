// All states that two streams and a bad network between them can reach: copies are lost, doubled and reordered at will, sockets are
// cut, sessions resume or are refused. Within the bounds below nothing is left out: the network is a set of messages, each of which
// may arrive any number of times, at any moment, or vanish. The ends and what must hold at them are in stream-endpoints.ts.

import assert from "node:assert";
import { type CreateStream, StreamEndpoints } from "./stream-endpoints.ts";

export interface SearchBounds {
  readonly window: number;
  readonly frames: number;
  /** Unlike acks that may be under way at once. */
  readonly acksMax: number;
  /** Sessions that may end in a refused resume. */
  readonly refusalsMax: number;
}

/** One state of the world. Sets are bits: `copies` by number, `settled` by label. */
interface SearchState {
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

export interface SearchStatistics {
  readonly states: number;
  readonly moves: number;
  readonly senders: number;
  readonly receivers: number;
}

export class ExhaustiveSearch {
  private readonly bounds: SearchBounds;
  private readonly endpoints: StreamEndpoints;
  private readonly seen = new Map<number, Set<number>>();
  private readonly canFinish = new Map<number, Set<number>>();
  private states = 0;
  private moves = 0;

  constructor(scope: SearchBounds, open?: CreateStream) {
    this.bounds = scope;
    this.endpoints = new StreamEndpoints(scope.window, open);
  }

  /** Walks through every state there is, and from each to the end by a calm way. */
  explore(): SearchStatistics {
    const { frames } = this.bounds;
    const labels = Array.from({ length: frames }, (_, label) => label);
    const start = { copies: 0, acks: [], settled: 0, refusals: 0, isCut: false };
    const open: SearchState[] = [];
    const enter = (state: SearchState): void => {
      this.moves += 1;
      const tidy = this.normalize(state);
      if (!addIfNew(this.seen, tidy)) return;
      this.states += 1;
      this.checkCanFinish(tidy);
      open.push(tidy);
    };
    enter({ ...start, sender: this.endpoints.openSender(labels), receiver: this.endpoints.openReceiver() });
    for (let state = open.pop(); state !== undefined; state = open.pop()) this.forEachSuccessor(state, enter);
    return { states: this.states, moves: this.moves, ...this.endpoints.sizes };
  }

  private forEachSuccessor(state: SearchState, enter: (next: SearchState) => void): void {
    const { endpoints: ends } = this;
    for (const number of ends.unsettled(state.receiver)) enter(this.settle(state, number));
    if (state.isCut) {
      enter(this.resume(state));
      if (state.refusals < this.bounds.refusalsMax) enter(this.refuse(state));
      return;
    }
    enter(this.cut(state));
    enter(this.addCopies(state, ends.send(state.sender)));
    enter(this.addCopies(state, ends.resend(state.sender)));
    for (let number = 0; state.copies >> number > 0; number += 1) {
      if (((state.copies >> number) & 1) === 0) continue;
      enter(this.receive(state, number));
      enter(dropCopy(state, number));
    }
    if (ends.hasPendingAcks(state.receiver) && state.acks.length < this.bounds.acksMax) enter(this.ack(state));
    for (const ack of state.acks) {
      enter(this.handleAck(state, ack));
      enter({ ...state, acks: state.acks.filter((one) => one !== ack) });
    }
  }

  /**
   * One way to the end in which nothing bad happens any more. Every state must have it; a way that meets one that is known to have
   * it ends there.
   */
  private checkCanFinish(from: SearchState): void {
    const path: SearchState[] = [];
    for (let state = from; !this.isFinished(state); state = this.normalize(this.stepWithoutFaults(state))) {
      if (!addIfNew(this.canFinish, state)) {
        assert(
          !path.some((one) => stateKey(one) === stateKey(state) && endpointsKey(one) === endpointsKey(state)),
          "goes round in circles",
        );
        return;
      }
      path.push(state);
    }
  }

  private stepWithoutFaults(state: SearchState): SearchState {
    const { endpoints: ends } = this;
    const [number] = ends.unsettled(state.receiver);
    if (number !== undefined) return this.settle(state, number);
    if (state.isCut) return this.resume(state);
    const [ack] = state.acks;
    if (ack !== undefined) return { ...this.handleAck(state, ack), acks: state.acks.slice(1) };
    if (state.copies > 0) {
      const lowest = Math.log2(state.copies & -state.copies);
      return dropCopy(this.receive(state, lowest), lowest);
    }
    if (ends.hasPendingAcks(state.receiver)) return this.ack(state);
    const sent = ends.send(state.sender);
    return this.addCopies(state, sent.out.sent > 0 ? sent : ends.resend(state.sender));
  }

  private isFinished(state: SearchState): boolean {
    if (this.endpoints.unackedLabels(state.sender).length > 0) return false;
    assert.equal(state.settled, 2 ** this.bounds.frames - 1, "the sender is done and something was not settled");
    return true;
  }

  private addCopies(state: SearchState, { next, out }: ReturnType<StreamEndpoints["send"]>): SearchState {
    return { ...state, sender: next, copies: state.copies | out.sent };
  }

  private receive(state: SearchState, number: number): SearchState {
    return { ...state, receiver: this.endpoints.receive(state.receiver, state.sender, number) };
  }

  private settle(state: SearchState, number: number): SearchState {
    const { next, label } = this.endpoints.settle(state.receiver, number);
    return { ...state, receiver: next, settled: state.settled | (1 << label) };
  }

  private ack(state: SearchState): SearchState {
    const { next, out } = this.endpoints.ack(state.receiver);
    return { ...state, receiver: next, acks: insertAck(state.acks, out) };
  }

  private handleAck(state: SearchState, ack: number): SearchState {
    const { next, out } = this.endpoints.handleAck(state.sender, ack);
    assert.equal(out.acked & ~state.settled, 0, "acked and not settled");
    return { ...state, sender: next };
  }

  private cut(state: SearchState): SearchState {
    const { endpoints: ends } = this;
    const sender = ends.pauseSender(state.sender);
    return { ...state, sender, receiver: ends.pauseReceiver(state.receiver), copies: 0, acks: [], isCut: true };
  }

  private resume(state: SearchState): SearchState {
    const sent = this.endpoints.resumeSender(state.sender, this.endpoints.lastSeen(state.receiver));
    const { next, out } = this.endpoints.resumeReceiver(state.receiver);
    return this.addCopies({ ...state, receiver: next, acks: [out], isCut: false }, sent);
  }

  /** A fresh session: what was not acked is offered again, and what was handed up and not settled is forgotten. */
  private refuse(state: SearchState): SearchState {
    const sender = this.endpoints.openSender(this.endpoints.unackedLabels(state.sender));
    return { ...state, sender, receiver: this.endpoints.openReceiver(), refusals: state.refusals + 1, isCut: false };
  }

  /** Leaves out what can do nothing any more: acks without news, and all but one of the copies that were here before. */
  private normalize(state: SearchState): SearchState {
    const { endpoints: ends } = this;
    let { copies } = state;
    let hasOld = false;
    for (let number = 0; copies >> number > 0; number += 1) {
      if (((copies >> number) & 1) === 0 || !ends.hasSeen(state.receiver, number)) continue;
      if (hasOld) copies &= ~(1 << number);
      hasOld = true;
    }
    const acks = state.acks.filter((ack) => ends.handleAck(state.sender, ack).next !== state.sender);
    return { ...state, copies, acks };
  }
}

const dropCopy = (state: SearchState, number: number): SearchState => ({ ...state, copies: state.copies & ~(1 << number) });

const insertAck = (acks: readonly number[], ack: number): number[] => [...new Set([...acks, ack])].toSorted((a, b) => a - b);

const endpointsKey = (state: SearchState): number => state.sender * 2 ** 20 + state.receiver;

/** 6 bits of copies, 6 of labels, 2 of refusals, 1 for the cut and 8 for each of two acks: small integers, which sets keep cheaply. */
function stateKey({ copies, acks, settled, refusals, isCut }: SearchState): number {
  let key = copies | (settled << 6) | (refusals << 12) | (Number(isCut) << 14);
  acks.forEach((ack, at) => {
    key += (ack + 1) * 2 ** (15 + 8 * at);
  });
  return key;
}

/** False if it was there. */
function addIfNew(worlds: Map<number, Set<number>>, state: SearchState): boolean {
  const pair = endpointsKey(state);
  const keys = worlds.get(pair) ?? new Set();
  if (keys.size === 0) worlds.set(pair, keys);
  const key = stateKey(state);
  if (keys.has(key)) return false;
  keys.add(key);
  return true;
}
