// How long the doors' thread was held, and how long /healthz took, while something was sent.

import { holdsPerReferenceMax, longestHold, measureReference, readLoopHolds } from "../harness/loop-holds.ts";
import { type AttackTarget, request } from "./attack.ts";

export interface WatchedLoop<T> {
  readonly result: T;
  /** The two figures in one line. */
  readonly seen: string;
  readonly isHeld: boolean;
}

export async function watchLoop<T>(target: AttackTarget, send: () => Promise<T>): Promise<WatchedLoop<T>> {
  const before = await readLoopHolds(target.http, target.tokens.metrics);
  const referenceBefore = measureReference();
  const sent = send();
  let isSent = false;
  void sent.finally(() => (isSent = true));
  let longestMs = 0;
  let asked = 0;
  do {
    longestMs = Math.max(longestMs, (await request(target, "/healthz")).ms);
    asked += 1;
  } while (!isSent);
  const result = await sent;
  const after = await readLoopHolds(target.http, target.tokens.metrics);
  const held = longestHold(before, after, "doors") / Math.max(referenceBefore, measureReference());
  const waited = `/healthz asked ${asked} times meanwhile, at most ${longestMs.toFixed(0)} ms`;
  return {
    result,
    seen: `${waited}; the doors' thread held for ${held.toFixed(1)} pieces of reference work`,
    isHeld: held > holdsPerReferenceMax,
  };
}
