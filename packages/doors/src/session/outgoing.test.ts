import type { SendDispatch, SendStop } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { dispatchTo } from "../testing/effects.ts";
import { type Acked, type Item, Outgoing } from "./outgoing.ts";

const dispatch = (n: number): SendDispatch => dispatchTo("s", `r.${n}`, 7);
const stop: SendStop = {
  type: "stop",
  session: "s",
  worker: "t/w",
  tenant: "t",
  run: "r",
  task: "r.0",
  fence: 7,
  code: "E.TIMEOUT",
  reason: "late",
};
const tasks = (acked: Acked) =>
  acked === "unsent" ? acked : acked.items.map((item) => (item.type === "dispatch" ? item.dispatch.task : "stop"));
const take = (outgoing: Outgoing, max = 1) => outgoing.take(max, 1_000_000);

function filled(count: number, window = 100): Outgoing {
  const outgoing = new Outgoing(window);
  for (let n = 0; n < count; n += 1) outgoing.offer(dispatch(n));
  return outgoing;
}

describe("outgoing numbers", () => {
  it("[D5] count from 0 and stop at the window until something is acknowledged", () => {
    const outgoing = filled(4, 2);

    expect([take(outgoing)?.seq, take(outgoing)?.seq, take(outgoing)]).toEqual([0, 1, null]);
    outgoing.ack(0, 0, undefined);
    expect([take(outgoing)?.seq, take(outgoing)]).toEqual([2, null]);
  });

  it("[D6] name what an ack newly covers, each thing once, by number and by bits", () => {
    const outgoing = filled(5);
    for (let n = 0; n < 5; n += 1) take(outgoing);

    expect(tasks(outgoing.ack(0, 0b1010, undefined))).toEqual(["r.0", "r.2", "r.4"]);
    expect(tasks(outgoing.ack(0, "a", undefined))).toEqual([]);
    expect(tasks(outgoing.ack(-1, 0, undefined))).toEqual([]);
    expect(tasks(outgoing.ack(4, undefined, undefined))).toEqual(["r.1", "r.3"]);
    expect(outgoing.inFlight).toBe(0);
  });

  it("[D6] refuse an ack for what was never sent, whether by number or by bit", () => {
    const outgoing = filled(3);
    take(outgoing);
    take(outgoing);

    expect(outgoing.ack(2, 0, undefined)).toBe("unsent");
    expect(outgoing.ack(0, 0b10, undefined)).toBe("unsent");
    expect(tasks(outgoing.ack(1, 0, undefined))).toEqual(["r.0", "r.1"]);
  });

  it("[D6] take an ack by name for one dispatch and ignore names of other frames", () => {
    const outgoing = filled(2, 1);
    take(outgoing);

    expect(tasks(outgoing.ackNamed("control.drain-1"))).toEqual([]);
    expect(tasks(outgoing.ackNamed("r.0#7"))).toEqual(["r.0"]);
    expect(take(outgoing)?.seq).toBe(1);
  });

  it("[D5] shrink to the window that the worker advertises, never beyond our own", () => {
    const outgoing = filled(6, 3);
    take(outgoing);

    outgoing.ack(0, 0, 1);
    expect([take(outgoing)?.seq, take(outgoing)]).toEqual([1, null]);
    outgoing.ack(1, 0, 500);
    expect([take(outgoing)?.seq, take(outgoing)?.seq, take(outgoing)?.seq, take(outgoing)]).toEqual([2, 3, 4, null]);
  });

  it("[D16] put dispatches into one frame up to the count and the bytes allowed, and a stop always alone", () => {
    const outgoing = filled(3);
    outgoing.offer(stop);
    outgoing.offer(dispatch(9));
    const kinds = (frame: { items: readonly Item[] } | null) => frame?.items.map((item) => item.type);

    expect(kinds(take(outgoing, 2))).toEqual(["dispatch", "dispatch"]);
    expect(kinds(take(outgoing, 64))).toEqual(["dispatch"]);
    expect(kinds(take(outgoing, 64))).toEqual(["stop"]);
    expect(kinds(outgoing.take(64, 1))).toEqual(["dispatch"]);
    expect(outgoing.waitingBytes).toBe(0);
  });
});
