// How long a worker counts on its lease. What it does at the end is in link.test.ts.
import { describe, expect, it } from "vitest";
import { Lease } from "./heartbeats.ts";

const begun = (): Lease => {
  const lease = new Lease({ safetyMargin: 0.1, missedHeartbeatsMax: 3 });
  lease.grant(10_000, 0);
  return lease;
};

describe("the lease as its worker counts it", () => {
  it("[W16] the lease runs from when the answered renewal was sent, not from when its answer arrived, and never moves backwards", () => {
    const lease = begun();
    lease.heartbeatSent("first", 2_000);
    lease.heartbeatSent("second", 4_000);

    lease.heartbeatAnswered("second");
    expect(lease.selfFenceAt).toBe(13_000);
    lease.heartbeatAnswered("first");
    expect(lease.selfFenceAt).toBe(13_000);
  });

  it("[W16] the lease is renewed neither by an answer to anything else nor by one to a heartbeat from before the connection was lost", () => {
    const lease = begun();
    lease.heartbeatSent("beat", 4_000);

    expect(lease.heartbeatAnswered("a result")).toBeUndefined();
    lease.clearUnanswered();
    expect(lease.heartbeatAnswered("beat")).toBeUndefined();

    expect(lease.selfFenceAt).toBe(9_000);
  });

  it("[W3] the lease counts the scheduler as silent once the allowed renewals in a row are unanswered, and no longer after one answer", () => {
    const lease = begun();
    for (const [at, id] of ["a", "b", "c"].entries()) lease.heartbeatSent(id, at);
    expect(lease.isSchedulerSilent).toBe(true);

    lease.heartbeatAnswered("b");
    expect(lease.isSchedulerSilent).toBe(false);
    lease.heartbeatSent("d", 3);
    // The answer to the second was one to the first as well: two are unanswered.
    expect(lease.isSchedulerSilent).toBe(false);
    lease.heartbeatSent("e", 4);
    expect(lease.isSchedulerSilent).toBe(true);
  });
});
