// What moves do to the floor. When they are made is the driver's business and tested in test/engine.
import { describe, expect, it } from "vitest";
import { Floor, type Hold, type Seat } from "./floor.ts";

const hold = (fence: number): Hold => ({
  task: "r.0",
  run: "r",
  fence,
  nodeType: "test.step",
  grantedAt: 1,
  acked: false,
  stored: false,
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
    liveness: "fresh",
    beatAt: 1,
    held: new Map(),
  };
  floor.apply({ move: "sit", seat });
  floor.apply({ move: "hold", worker: seat.worker, hold: held });
  return { floor, seat };
}

describe("a hold on the floor", () => {
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
