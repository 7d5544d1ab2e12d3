import { Fault, type FaultCode } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { toUnavailableFault, waitForStore } from "./store-retry.ts";

/** Plays the given outcomes one after another; the clock goes on by one with every look. */
function createFixture(...outcomes: (FaultCode | "up")[]) {
  const reported: string[] = [];
  let tries = 0;
  let now = 0;
  const start = async () => {
    const outcome = outcomes[Math.min(tries++, outcomes.length - 1)] ?? "up";
    if (outcome !== "up") throw new Fault(outcome, `try ${tries}`);
    return "started";
  };
  const policy = {
    giveUpAfterMs: 5,
    retryDelayMs: 0,
    now: () => now++,
    onFirstFailure: (cause: Fault) => reported.push(cause.message),
  };
  return { reported, begun: () => waitForStore(start, policy), tries: () => tries };
}

it("[O28] a scheduler started before its database waits for it and reports that once", async () => {
  const { begun, reported } = createFixture("E.STORE.BUSY", "E.STORE.BUSY", "up");

  expect(await begun()).toBe("started");
  expect(reported).toEqual(["try 1"]);
});

it("[O28] a scheduler stops waiting for its store after a time limit, and at once if waiting cannot help", async () => {
  const away = createFixture("E.STORE.BUSY");
  const wrong = createFixture("E.STORE.OPEN", "up");

  await expect(away.begun()).rejects.toMatchObject({ code: "E.STORE.BUSY" });
  await expect(wrong.begun()).rejects.toMatchObject({ code: "E.STORE.OPEN" });

  expect(away.tries()).toBeGreaterThan(3);
  expect(wrong.tries()).toBe(1);
});

it("[O28] a store counts as unavailable if it does not answer or is not ready yet, not if it refuses the connection", () => {
  const opening = (error: object) =>
    toUnavailableFault(
      new Fault("E.STORE.OPEN", "cannot be opened", {}, new Fault("E.STORE.BUSY", "does not answer", {}, error)),
    );
  const serverError = (code: string) => Object.assign(new Error(code), { code, severity: "FATAL" });
  const codeOf = (fault: unknown) => (fault as Fault).code;

  for (const error of [
    Object.assign(new Error("refused"), { code: "ECONNREFUSED" }),
    new Error("timeout expired"),
    serverError("57P03"),
    serverError("53300"),
  ])
    expect(codeOf(opening(error))).toBe("E.STORE.BUSY");
  for (const error of [serverError("28P01"), serverError("3D000")]) expect(codeOf(opening(error))).toBe("E.STORE.OPEN");
  expect(codeOf(toUnavailableFault(new Fault("E.STORE.OPEN", "belongs to another cluster")))).toBe("E.STORE.OPEN");
});
