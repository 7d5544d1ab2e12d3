// What moves do to the fleet. When they are made is the driver's business and tested in test/engine.
import { describe, expect, it } from "vitest";
import { type ConnectedWorker, type LeasedAttempt, usedSlots } from "./connected-worker.ts";
import { Fleet } from "./fleet.ts";

const leasedAttempt = (fence: number): LeasedAttempt => ({
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

function fleetWith(held: LeasedAttempt): { fleet: Fleet; connected: ConnectedWorker } {
  const fleet = new Fleet();
  const about = { slots: 1, packages: [], runtimes: [], features: [], payloadTypes: [], pool: "default", tags: {} };
  const connected: ConnectedWorker = {
    worker: "t1/w",
    tenant: "t1",
    name: "w",
    session: "s",
    boot: "b",
    epoch: 1,
    about: { ...about, hostname: "h", version: "1", dialect: "v2" },
    draining: false,
    healthy: true,
    resourcePressure: null,
    liveness: "fresh",
    heartbeatAt: 1,
    fullSince: null,
    isSaturated: false,
    attempts: new Map(),
  };
  fleet.apply({ type: "connect", connected });
  fleet.apply({ type: "grant", worker: connected.worker, attempt: held });
  return { fleet, connected };
}

describe("a hold on the fleet", () => {
  it("[B42] a newer attempt that replaces a waiting one takes its slot again: a worker never gets more attempts than slots", () => {
    const { fleet, connected } = fleetWith({ ...leasedAttempt(7), isWaiting: false });
    fleet.apply({ type: "wait", worker: connected.worker, task: "r.0", fence: 7, nodeType: "test.step", isWaiting: true });
    expect(usedSlots(connected)).toBe(0);

    fleet.apply({ type: "grant", worker: connected.worker, attempt: leasedAttempt(8) });
    expect([connected.attempts.size, usedSlots(connected)]).toEqual([1, 1]);
  });

  it("[B21] a leased attempt is released under its own fence only: the end of an older attempt frees no slot of the newer", () => {
    const { fleet, connected } = fleetWith(leasedAttempt(7));

    fleet.apply({ type: "release", worker: connected.worker, task: "r.0", fence: 6 });
    expect(connected.attempts.size).toBe(1);

    fleet.apply({ type: "release", worker: connected.worker, task: "r.0", fence: 7 });
    expect(connected.attempts.size).toBe(0);
  });

  it("[B21] a leased attempt is acked under its own fence only: the ack of an older attempt leaves the newer to its deadline", () => {
    const { fleet, connected } = fleetWith(leasedAttempt(7));

    fleet.apply({ type: "ack", worker: connected.worker, task: "r.0", fence: 6, stored: false });

    expect(fleet.unackedGrants(10_000, 5_000)).toMatchObject([{ task: "r.0", fence: 7 }]);
  });
});

describe("a hold that waits for what it called", () => {
  const wait = (isWaiting: boolean, fence = 7) =>
    ({ type: "wait", worker: "t1/w", task: "r.0", fence, nodeType: "test.step", isWaiting }) as const;

  it("[B40] an attempt that waits for what it called takes no slot, even when the wait is reported twice, and takes it again afterwards", () => {
    const { fleet, connected } = fleetWith(leasedAttempt(7));
    fleet.apply(wait(true, 6));
    expect(usedSlots(connected)).toBe(1);
    fleet.apply(wait(true));
    fleet.apply(wait(true));
    expect([usedSlots(connected), connected.attempts.size]).toEqual([0, 1]);

    fleet.apply(wait(false));

    expect(usedSlots(connected)).toBe(1);
  });

  it("[B40] a waiting attempt is no longer counted after its release, and is counted as waiting when its worker reconnects with it", () => {
    const { fleet, connected } = fleetWith(leasedAttempt(7));
    fleet.apply(wait(true));
    fleet.apply({ type: "release", worker: "t1/w", task: "r.0", fence: 7, wasWaiting: true });
    expect([usedSlots(connected), connected.waitingCount]).toEqual([0, 0]);

    const again = { ...connected, session: "s2", attempts: new Map([["r.0", { ...leasedAttempt(7), isWaiting: true }]]) };
    fleet.apply({ type: "connect", connected: again });

    expect(usedSlots(again)).toBe(0);
  });
});

describe("the deadlines of a fleet", () => {
  it("[B3] the fleet's ack deadlines list only unacked grants, also where a later one of the same instant was acked", () => {
    const { fleet, connected } = fleetWith(leasedAttempt(7));
    fleet.apply({ type: "grant", worker: connected.worker, attempt: { ...leasedAttempt(8), task: "r.1" } });
    fleet.apply({ type: "ack", worker: connected.worker, task: "r.1", fence: 8, stored: false });

    expect(fleet.unackedGrants(10_000, 5_000).map(({ task }) => task)).toEqual(["r.0"]);
  });

  it("[B1155] an attempt that is left with its worker after the ack deadline wakes the engine no more, before and after its ack", () => {
    const { fleet, connected } = fleetWith(leasedAttempt(7));
    const attempt = { worker: connected.worker, task: "r.0", fence: 7 };

    fleet.apply({ type: "await", ...attempt });
    const whileAwaited = [fleet.unackedGrants(10_000, 5_000), fleet.nextDeadline(10_000, 5_000, 2_000)];
    fleet.apply({ type: "ack", ...attempt, stored: false });

    expect(whileAwaited).toEqual([[], null]);
    expect(fleet.nextDeadline(10_000, 5_000, 2_000)).toBeNull();
  });

  it("[B28] the ack deadline of a dispatch that was sent again runs from the second send, and the first deadline no longer counts", () => {
    const { fleet, connected } = fleetWith(leasedAttempt(7));
    fleet.apply({ type: "ack", worker: connected.worker, task: "r.0", fence: 7, stored: false });

    fleet.apply({ type: "recheck", worker: connected.worker, task: "r.0", fence: 7, sentAt: 9_000 });

    expect(fleet.unackedGrants(13_999, 5_000)).toEqual([]);
    expect(fleet.unackedGrants(14_000, 5_000)).toMatchObject([{ task: "r.0", at: 9_000 }]);
  });

  it("[B28] the fleet's deadlines wake the engine once for an attempt that has to be rechecked", () => {
    const { fleet, connected } = fleetWith(leasedAttempt(7));
    const held = new Map([["r.0", { ...leasedAttempt(7), acked: true, stored: true, recheckFrom: 500 }]]);
    fleet.apply({ type: "connect", connected: { ...connected, session: "s2", attempts: held } });
    expect(fleet.nextDeadline(600, 5_000, 2_000)).toBe(2_500);
    expect(fleet.attemptsToRecheck(2_499, 2_000)).toEqual([]);
    expect(fleet.attemptsToRecheck(2_500, 2_000)).toMatchObject([{ task: "r.0" }]);

    fleet.apply({ type: "recheck", worker: connected.worker, task: "r.0", fence: 7, sentAt: null });

    expect(fleet.attemptsToRecheck(9_999, 2_000)).toEqual([]);
    expect(fleet.nextDeadline(600, 5_000, 2_000)).toBeNull();
  });
});
