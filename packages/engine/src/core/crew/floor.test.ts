// What moves do to the floor. When they are made is the driver's business and tested in test/engine.
import { describe, expect, it } from "vitest";
import { busyOf, Floor, type Hold, type Seat } from "./floor.ts";

const hold = (fence: number): Hold => ({
  task: "r.0",
  run: "r",
  fence,
  nodeType: "test.step",
  grantedAt: 1,
  acked: false,
  stored: false,
  recheckFrom: null,
  isRunningOlder: false,
});

function floorWith(held: Hold): { floor: Floor; seat: Seat } {
  const floor = new Floor();
  const about = { slots: 1, packages: [], runtimes: [], features: [], payloadTypes: [], pool: "default", tags: {} };
  const seat: Seat = {
    worker: "t1/w",
    tenant: "t1",
    name: "w",
    session: "s",
    boot: "b",
    epoch: 1,
    about: { ...about, hostname: "h", version: "1", dialect: "v2" },
    draining: false,
    healthy: true,
    strain: null,
    liveness: "fresh",
    beatAt: 1,
    fullSince: null,
    isSaturated: false,
    held: new Map(),
  };
  floor.apply({ move: "sit", seat });
  floor.apply({ move: "hold", worker: seat.worker, hold: held });
  return { floor, seat };
}

describe("a hold on the floor", () => {
  it("[B42] that waited takes its wait along when a newer attempt takes its place: a worker never gets more than its slots", () => {
    const { floor, seat } = floorWith({ ...hold(7), isWaiting: false });
    floor.apply({ move: "wait", worker: seat.worker, task: "r.0", fence: 7, nodeType: "test.step", isWaiting: true });
    expect(busyOf(seat)).toBe(0);

    floor.apply({ move: "hold", worker: seat.worker, hold: hold(8) });
    expect([seat.held.size, busyOf(seat)]).toEqual([1, 1]);
  });

  it("[B21] is dropped under its own fence only: the end of an older attempt frees no slot of the newer", () => {
    const { floor, seat } = floorWith(hold(7));

    floor.apply({ move: "drop", worker: seat.worker, task: "r.0", fence: 6 });
    expect(seat.held.size).toBe(1);

    floor.apply({ move: "drop", worker: seat.worker, task: "r.0", fence: 7 });
    expect(seat.held.size).toBe(0);
  });

  it("[B21] is acked under its own fence only: the ack of an older attempt leaves the newer to its deadline", () => {
    const { floor, seat } = floorWith(hold(7));

    floor.apply({ move: "ack", worker: seat.worker, task: "r.0", fence: 6, stored: false });

    expect(floor.unacked(10_000, 5_000)).toMatchObject([{ task: "r.0", fence: 7 }]);
  });
});

describe("a hold that waits for what it called", () => {
  const wait = (isWaiting: boolean, fence = 7) =>
    ({ move: "wait", worker: "t1/w", task: "r.0", fence, nodeType: "test.step", isWaiting }) as const;

  it("[B40] takes no slot while it waits, said once or twice, and takes it again after", () => {
    const { floor, seat } = floorWith(hold(7));
    floor.apply(wait(true, 6));
    expect(busyOf(seat)).toBe(1);
    floor.apply(wait(true));
    floor.apply(wait(true));
    expect([busyOf(seat), seat.held.size]).toEqual([0, 1]);

    floor.apply(wait(false));

    expect(busyOf(seat)).toBe(1);
  });

  it("[B40] leaves nothing behind when it is dropped, and is counted when a worker sits down with it", () => {
    const { floor, seat } = floorWith(hold(7));
    floor.apply(wait(true));
    floor.apply({ move: "drop", worker: "t1/w", task: "r.0", fence: 7, wasWaiting: true });
    expect([busyOf(seat), seat.waiting]).toEqual([0, 0]);

    const again = { ...seat, session: "s2", held: new Map([["r.0", { ...hold(7), isWaiting: true }]]) };
    floor.apply({ move: "sit", seat: again });

    expect(busyOf(again)).toBe(0);
  });
});

describe("the deadlines of a floor", () => {
  it("[B3] name only grants that nobody acked, also where one of the same instant was acked behind one that was not", () => {
    const { floor, seat } = floorWith(hold(7));
    floor.apply({ move: "hold", worker: seat.worker, hold: { ...hold(8), task: "r.1" } });
    floor.apply({ move: "ack", worker: seat.worker, task: "r.1", fence: 8, stored: false });

    expect(floor.unacked(10_000, 5_000).map(({ task }) => task)).toEqual(["r.0"]);
  });

  it("[B28] of a dispatch that was sent again run from then on, and the first one's are over", () => {
    const { floor, seat } = floorWith(hold(7));
    floor.apply({ move: "ack", worker: seat.worker, task: "r.0", fence: 7, stored: false });

    floor.apply({ move: "recheck", worker: seat.worker, task: "r.0", fence: 7, sentAt: 9_000 });

    expect(floor.unacked(13_999, 5_000)).toEqual([]);
    expect(floor.unacked(14_000, 5_000)).toMatchObject([{ task: "r.0", at: 9_000 }]);
  });

  it("[B28] wake the engine for what is to be asked, once", () => {
    const { floor, seat } = floorWith(hold(7));
    const held = new Map([["r.0", { ...hold(7), acked: true, stored: true, recheckFrom: 500 }]]);
    floor.apply({ move: "sit", seat: { ...seat, session: "s2", held } });
    expect(floor.nextDeadline(600, 5_000, 2_000)).toBe(2_500);
    expect(floor.rechecks(2_499, 2_000)).toEqual([]);
    expect(floor.rechecks(2_500, 2_000)).toMatchObject([{ task: "r.0" }]);

    floor.apply({ move: "recheck", worker: seat.worker, task: "r.0", fence: 7, sentAt: null });

    expect(floor.rechecks(9_999, 2_000)).toEqual([]);
    expect(floor.nextDeadline(600, 5_000, 2_000)).toBeNull();
  });
});
