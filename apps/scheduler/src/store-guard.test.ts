import type { Store, Tx } from "@astraflow/engine";
import { Fault, type FaultCode } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { guardStore } from "./store-guard.ts";

const want = { rows: [], claims: [], lists: [], due: 0, mail: 0, skip: [] };

/** A store that does nothing but begin, or refuse to with what it was told. */
function stage() {
  const moods: (FaultCode | null)[] = [];
  const inner = {
    begin: async () => {
      const mood = moods.shift() ?? null;
      if (mood !== null) throw new Fault(mood, "the store's own words");
      return {} as Tx;
    },
  } as unknown as Store;
  const heard: string[] = [];
  const guarded = guardStore(inner, (fault) => heard.push(fault.message));
  const begin = (mood: FaultCode | null) => {
    moods.push(mood);
    return guarded.store.begin(want).then(
      () => "begun",
      (cause: Fault) => cause.code,
    );
  };
  return { guarded, heard, begin };
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
