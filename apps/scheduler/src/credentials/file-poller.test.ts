import { expect, it, vi } from "vitest";
import { startFilePoller } from "./file-poller.ts";

it("[O33] file polls never overlap, a requested poll starts anew and is marked explicit, and a failed poll does not stop polling", async () => {
  vi.useFakeTimers();
  const looks: boolean[] = [];
  const problems: unknown[] = [];
  let gate = Promise.withResolvers<void>();
  const lookout = startFilePoller(
    async (isExplicit) => {
      looks.push(isExplicit);
      await gate.promise;
    },
    (problem) => problems.push(problem),
    1_000,
  );

  await vi.advanceTimersByTimeAsync(3_500);
  expect(looks).toEqual([false]);

  const asked = lookout.pollNow();
  gate.reject(new Error("no disk"));
  gate = Promise.withResolvers<void>();
  await vi.advanceTimersByTimeAsync(0);
  expect([looks, problems]).toEqual([[false, true], [new Error("no disk")]]);

  gate.resolve();
  await asked;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(looks).toEqual([false, true, false]);
  lookout.stop();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(looks).toHaveLength(3);
  vi.useRealTimers();
});
