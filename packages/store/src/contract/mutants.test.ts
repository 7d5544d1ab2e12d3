import { describe, expect, it } from "vitest";
import { pollingReadersMissNothing } from "./cases/log.ts";
import { everyChangeSetIsWritten } from "./cases/rows.ts";
import { joinsCountEachEnd } from "./cases/turns.ts";
import { createMemoryFixture } from "./fixtures/memory-and-sqlite-fixtures.ts";

describe("planted bugs", () => {
  for (const [mutant, caught] of [
    ["sequence-positions", pollingReadersMissNothing],
    ["no-root-lock", joinsCountEachEnd],
    ["drop-unit", everyChangeSetIsWritten],
  ] as const)
    it(`[S50] the planted bug '${mutant}' is caught by the store contract case '${caught.title}'`, async () => {
      await expect(caught.run(() => createMemoryFixture("weak", mutant))).rejects.toMatchObject({ code: "ERR_ASSERTION" });
      await expect(caught.run(() => createMemoryFixture("weak"))).resolves.toBeUndefined();
    });
});
