import { describe, expect, it } from "vitest";
import { pollingReadersMissNothing } from "./cases-log.ts";
import { everyUnitIsWritten } from "./cases-rows.ts";
import { joinsCountEachEnd } from "./cases-turns.ts";
import { memoryStage } from "./stages.ts";

describe("planted bugs", () => {
  for (const [plant, caught] of [
    ["sequence-positions", pollingReadersMissNothing],
    ["no-root-lock", joinsCountEachEnd],
    ["drop-unit", everyUnitIsWritten],
  ] as const)
    it(`[S50] "${plant}" is caught by "${caught.title}"`, async () => {
      await expect(caught.run(() => memoryStage("weak", plant))).rejects.toMatchObject({ code: "ERR_ASSERTION" });
      await expect(caught.run(() => memoryStage("weak"))).resolves.toBeUndefined();
    });
});
