import { setImmediate as nextRound } from "node:timers/promises";
import { createFakeEnvironment } from "@astraflow/services/testing";
import { expect, it } from "vitest";
import { LoopTurns, type LoopTurnLimits } from "./loop-turns.ts";

/** Requests that take as long as a test says, on a loop whose rounds are counted. */
function openTurns(limits: Partial<LoopTurnLimits> = {}) {
  const environment = createFakeEnvironment();
  let round = 0;
  const turns = new LoopTurns(
    {
      ...environment,
      yieldLoop: async () => {
        await nextRound();
        round += 1;
      },
    },
    limits,
  );
  const begun: { name: string; round: number }[] = [];
  const send = async (name: string, ms: number, bytes = 0): Promise<void> => {
    const turn = turns.begin(name.slice(0, 1), bytes);
    if (turn !== null) await turn;
    begun.push({ name, round });
    // What a request does after a promise that waits for nothing belongs to its time.
    await Promise.resolve();
    environment.jumpClock(ms);
  };
  return { turns, begun, send, names: () => begun.map(({ name }) => name) };
}

it("[A1460] a round of the loop begins requests for 10 ms, and later rounds those that are left", async () => {
  const { begun, send } = openTurns();
  await send("a0", 6);
  await send("a1", 6);

  await Promise.all(Array.from({ length: 6 }, (_, at) => send(`a${at + 2}`, 6)));

  expect([...Map.groupBy(begun, ({ round }) => round).values()].map((all) => all.length)).toEqual([2, 2, 2, 2]);
});

it("[A1460] small requests that do not fill a round begin at once", async () => {
  const { turns } = openTurns();

  expect(Array.from({ length: 100 }, () => turns.begin("a", 1_000))).toEqual(Array.from({ length: 100 }, () => null));
});

it("[A1461] tenants take turns among the requests that wait, and nobody passes them", async () => {
  const { send, names } = openTurns();
  await send("a0", 10);

  await Promise.all(["a1", "a2", "a3", "b1", "c1", "b2"].map((name) => send(name, 10)));

  expect(names()).toEqual(["a0", "a1", "b1", "c1", "a2", "b2", "a3"]);
});

it("[A1462] beyond the requests or bytes that a tenant may have waiting, the answer is E.OVERLOADED with a time to try again", async () => {
  const { turns, send } = openTurns({ itemsPerTenantMax: 2, bytesPerTenantMax: 1_000 });
  await send("a0", 10);
  const waiting = [turns.begin("a", 10), turns.begin("a", 10), turns.begin("b", 900)];

  await expect(turns.begin("a", 10)).rejects.toMatchObject({
    code: "E.OVERLOADED",
    message: expect.stringContaining("2 of tenant a wait already"),
    details: { retryAfterMs: expect.any(Number) },
  });
  await expect(turns.begin("b", 101)).rejects.toMatchObject({ code: "E.OVERLOADED" });
  await Promise.all(waiting.map((turn) => turn ?? Promise.reject(new Error("it did not wait"))));
});
