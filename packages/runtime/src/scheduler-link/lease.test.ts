// How long a worker counts on its lease. What it does at the end is in link.test.ts.
import { describe, expect, it } from "vitest";
import { Lease } from "./heartbeats.ts";

const begun = (): Lease => {
  const lease = new Lease({ safetyMargin: 0.1, missedHeartbeatsMax: 3 });
  lease.grant(10_000, 0);
  return lease;
};

describe("the lease as its worker counts it", () => {
  it("[W16] runs from when the answered renewal was sent, not from when its answer came, and never backwards", () => {
    const lease = begun();
    lease.heartbeatSent("first", 2_000);
    lease.heartbeatSent("second", 4_000);

    lease.heartbeatAnswered("second");
    expect(lease.selfFenceAt).toBe(13_000);
    lease.heartbeatAnswered("first");
    expect(lease.selfFenceAt).toBe(13_000);
  });

  it("[W16] is renewed by no answer to anything else, nor to what was asked before the connection was lost", () => {
    const lease = begun();
    lease.heartbeatSent("beat", 4_000);

    expect(lease.heartbeatAnswered("a result")).toBeUndefined();
    lease.clearUnanswered();
    expect(lease.heartbeatAnswered("beat")).toBeUndefined();

    expect(lease.selfFenceAt).toBe(9_000);
  });

  it("[W3] is silent once as many renewals in a row went unanswered as may, and not after one answer", () => {
    const lease = begun();
    for (const [at, id] of ["a", "b", "c"].entries()) lease.heartbeatSent(id, at);
    expect(lease.isSchedulerSilent).toBe(true);

    lease.heartbeatAnswered("b");
    expect(lease.isSchedulerSilent).toBe(false);
  });
});
