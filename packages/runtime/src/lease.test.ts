// How long a worker counts on its lease. What it does at the end is in link.test.ts.
import { describe, expect, it } from "vitest";
import { Lease } from "./lease.ts";

const begun = (): Lease => {
  const lease = new Lease({ marginShare: 0.1, missesMax: 3 });
  lease.grant(10_000, 0);
  return lease;
};

describe("the lease as its worker counts it", () => {
  it("[W16] runs from when the answered renewal was sent, not from when its answer came, and never backwards", () => {
    const lease = begun();
    lease.ask("first", 2_000);
    lease.ask("second", 4_000);

    lease.answer("second");
    expect(lease.fenceAt).toBe(13_000);
    lease.answer("first");
    expect(lease.fenceAt).toBe(13_000);
  });

  it("[W16] is renewed by no answer to anything else, nor to what was asked before the connection was lost", () => {
    const lease = begun();
    lease.ask("beat", 4_000);

    expect(lease.answer("a result")).toBeUndefined();
    lease.forgetAsked();
    expect(lease.answer("beat")).toBeUndefined();

    expect(lease.fenceAt).toBe(9_000);
  });

  it("[W3] is silent once as many renewals in a row went unanswered as may, and not after one answer", () => {
    const lease = begun();
    for (const [at, id] of ["a", "b", "c"].entries()) lease.ask(id, at);
    expect(lease.isSilent).toBe(true);

    lease.answer("b");
    expect(lease.isSilent).toBe(false);
  });
});
