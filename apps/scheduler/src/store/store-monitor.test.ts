import type { CommitOutcome, Store, TurnTransaction } from "@astraflow/engine";
import { Fault, type FaultCode } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { durabilityProblemMs, monitorStore } from "./store-monitor.ts";

const want = { rows: [], claims: [], lists: [], due: 0, mail: 0, skip: [] };

/** A store that does nothing but begin and commit, or fails with the code that the test gave. */
function createFixture() {
  const begins: (FaultCode | null)[] = [];
  const commits: (FaultCode | null)[] = [];
  let now = 0;
  const disk = { isFull: false };
  const inner = {
    begin: async () => {
      const code = begins.shift() ?? null;
      if (code !== null) throw new Fault(code, "the store's own words");
      const commit = async (): Promise<CommitOutcome> => {
        const code = commits.shift() ?? null;
        if (code === null) return { outcome: "committed", first: new Map() };
        return { outcome: "failed", fault: new Fault(code, "the store's own words", { isDiskFull: disk.isFull }) };
      };
      return { commit } as unknown as TurnTransaction;
    },
  } as unknown as Store;
  const replacedMessages: string[] = [];
  const guarded = monitorStore(inner, {
    onReplaced: (fault) => replacedMessages.push(fault.message),
    now: () => now,
    hasRoom: () => !disk.isFull,
  });
  const begin = (code: FaultCode | null) => {
    begins.push(code);
    return guarded.store.begin(want).then(
      () => "begun",
      (cause: Fault) => cause.code,
    );
  };
  const commit = async (code: FaultCode | null) => {
    commits.push(code);
    const tx = await guarded.store.begin(want);
    return (await tx.commit(1, [])).outcome;
  };
  const advance = (ms: number) => {
    now += ms;
  };
  return { guarded, replacedMessages, begin, commit, advance, disk };
}

it("[O20] the store is unavailable from the first turn that cannot begin until the next that can, and the engine gets every fault", async () => {
  const { guarded, begin, replacedMessages } = createFixture();

  expect([await begin(null), guarded.isUnavailable()]).toEqual(["begun", false]);
  expect([await begin("E.STORE.BUSY"), guarded.isUnavailable()]).toEqual(["E.STORE.BUSY", true]);
  expect([await begin("E.STORE.BUSY"), guarded.isUnavailable()]).toEqual(["E.STORE.BUSY", true]);
  expect([await begin(null), guarded.isUnavailable()]).toEqual(["begun", false]);
  expect(replacedMessages).toEqual([]);
});

it("[O23] the store monitor reports once, with the store's message, that another process has taken the replica name", async () => {
  const { begin, replacedMessages } = createFixture();

  await begin("E.STORE.IN_USE");
  await begin("E.STORE.IN_USE");

  expect(replacedMessages).toEqual(["the store's own words"]);
});

it("[O29] a durability fault is reported as the store's durability problem until a commit succeeds; other failed commits are not", async () => {
  const { guarded, commit, begin } = createFixture();

  expect([await commit("E.STORE.BUSY"), guarded.durabilityProblem()]).toEqual(["failed", null]);
  expect([await commit("E.STORE.DURABILITY"), guarded.durabilityProblem()]).toEqual(["failed", "the store's own words"]);
  expect([await begin(null), guarded.durabilityProblem()]).toEqual(["begun", "the store's own words"]);
  expect([await commit(null), guarded.durabilityProblem()]).toEqual(["committed", null]);
  expect([await begin("E.STORE.DURABILITY"), guarded.isUnavailable(), guarded.durabilityProblem()]).toEqual([
    "E.STORE.DURABILITY",
    false,
    "the store's own words",
  ]);
});

it("[O29] a durability problem of an idle store expires after a while, so that it is tried again", async () => {
  const { guarded, commit, advance } = createFixture();

  await commit("E.STORE.DURABILITY");
  advance(durabilityProblemMs - 1);
  expect(guarded.durabilityProblem()).not.toBeNull();
  advance(1);

  expect(guarded.durabilityProblem()).toBeNull();
});

it("[O115] the store monitor reports a full disk from the first commit that it failed until a commit succeeds or there is room again", async () => {
  const { guarded, commit, disk } = createFixture();

  expect([await commit("E.STORE.BUSY"), guarded.isDiskFull()]).toEqual(["failed", false]);
  disk.isFull = true;
  expect([await commit("E.STORE.BUSY"), guarded.isDiskFull()]).toEqual(["failed", true]);
  expect([await commit(null), guarded.isDiskFull()]).toEqual(["committed", false]);
  expect([await commit("E.STORE.BUSY"), guarded.isDiskFull()]).toEqual(["failed", true]);
  disk.isFull = false;
  expect(guarded.isDiskFull()).toBe(false);
});
