import type { CommitOutcome, Store, TurnTransaction } from "@astraflow/engine";
import { Fault, type FaultCode } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { guardStore, weakMs } from "./store-guard.ts";

const want = { rows: [], claims: [], lists: [], due: 0, mail: 0, skip: [] };

/** A store that does nothing but begin and commit, or refuse to with what it was told. */
function stage() {
  const moods: (FaultCode | null)[] = [];
  const commits: (FaultCode | null)[] = [];
  let now = 0;
  const inner = {
    begin: async () => {
      const mood = moods.shift() ?? null;
      if (mood !== null) throw new Fault(mood, "the store's own words");
      const commit = async (): Promise<CommitOutcome> => {
        const code = commits.shift() ?? null;
        if (code === null) return { outcome: "committed", first: new Map() };
        return { outcome: "failed", fault: new Fault(code, "the store's own words") };
      };
      return { commit } as unknown as TurnTransaction;
    },
  } as unknown as Store;
  const heard: string[] = [];
  const guarded = guardStore(inner, { replaced: (fault) => heard.push(fault.message), now: () => now });
  const begin = (mood: FaultCode | null) => {
    moods.push(mood);
    return guarded.store.begin(want).then(
      () => "begun",
      (cause: Fault) => cause.code,
    );
  };
  const commit = async (mood: FaultCode | null) => {
    commits.push(mood);
    const tx = await guarded.store.begin(want);
    return (await tx.commit(1, [])).outcome;
  };
  const advance = (ms: number) => {
    now += ms;
  };
  return { guarded, heard, begin, commit, advance };
}

it("[O20] the store is away from the first turn that cannot begin until the next that can, and the engine hears every refusal", async () => {
  const { guarded, begin, heard } = stage();

  expect([await begin(null), guarded.isAway()]).toEqual(["begun", false]);
  expect([await begin("E.STORE.BUSY"), guarded.isAway()]).toEqual(["E.STORE.BUSY", true]);
  expect([await begin("E.STORE.BUSY"), guarded.isAway()]).toEqual(["E.STORE.BUSY", true]);
  expect([await begin(null), guarded.isAway()]).toEqual(["begun", false]);
  expect(heard).toEqual([]);
});

it("[O23] that another process has taken the name is told once, in the store's words", async () => {
  const { begin, heard } = stage();

  await begin("E.STORE.IN_USE");
  await begin("E.STORE.IN_USE");

  expect(heard).toEqual(["the store's own words"]);
});

it("[O29] a commit that would not last makes the store weak until one is taken again; other failures do not", async () => {
  const { guarded, commit, begin } = stage();

  expect([await commit("E.STORE.BUSY"), guarded.weakness()]).toEqual(["failed", null]);
  expect([await commit("E.STORE.DURABILITY"), guarded.weakness()]).toEqual(["failed", "the store's own words"]);
  expect([await begin(null), guarded.weakness()]).toEqual(["begun", "the store's own words"]);
  expect([await commit(null), guarded.weakness()]).toEqual(["committed", null]);
  expect([await begin("E.STORE.DURABILITY"), guarded.isAway(), guarded.weakness()]).toEqual([
    "E.STORE.DURABILITY",
    false,
    "the store's own words",
  ]);
});

it("[O29] a weak store of which nothing more is asked is trusted with another try after a while", async () => {
  const { guarded, commit, advance } = stage();

  await commit("E.STORE.DURABILITY");
  advance(weakMs - 1);
  expect(guarded.weakness()).not.toBeNull();
  advance(1);

  expect(guarded.weakness()).toBeNull();
});
