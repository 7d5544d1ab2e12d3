// Every bug that can be planted is caught: what shows that the checkers would see one.

import { describe, expect, it } from "vitest";
import type { CheckerName } from "../checkers/checker-table.ts";
import type { FaultProfile } from "../plan/fault-table.ts";
import { type Mutant, mutants } from "../scheduler/mutants.ts";
import { checkSeed, runCampaign } from "./campaign.ts";

const hour = 3_600_000;

describe("planted bugs", () => {
  /** The seeds that caught each first, and who may find it. A change of the world may move them; any of the first thousand will do. */
  const catches: Readonly<
    Record<Mutant, { readonly profile: FaultProfile; readonly from: number; readonly by: readonly CheckerName[] }>
  > = {
    "ack-before-commit": { profile: "default", from: 31, by: ["durable"] },
    "requeue-forgets-fence": { profile: "default", from: 6, by: ["single-lease"] },
    "sequence-positions": { profile: "default", from: 15, by: ["positions"] },
    "no-root-lock": { profile: "default", from: 3, by: ["single-lease", "once", "convergence"] },
    "drop-unit": { profile: "default", from: 2, by: ["durable"] },
    "silent-unasked": { profile: "dialects", from: 4, by: ["held"] },
    "unstopped-slot-freed": { profile: "session", from: 21, by: ["unstopped"] },
    "resume-forgets-unacked": { profile: "session", from: 4, by: ["in-order"] },
    "duplicate-after-resume": { profile: "session", from: 1, by: ["in-order"] },
    "ack-unsettled": { profile: "session", from: 2, by: ["durable"] },
    "old-socket-read": { profile: "session", from: 9, by: ["acks", "in-order"] },
    "resumed-join-forgets": { profile: "session", from: 1, by: ["binding"] },
    "frame-forgets-a-node": { profile: "workflow", from: 1, by: ["frames"] },
    "next-answered-twice": { profile: "workflow", from: 1, by: ["chains"] },
    "moment-misses-the-last": { profile: "workflow", from: 3, by: ["moments"] },
    "command-ends-twice": { profile: "workflow", from: 1, by: ["commands"] },
    "refusal-unaudited": { profile: "workflow", from: 1, by: ["audit"] },
    "unknown-let-in": { profile: "workflow", from: 16, by: ["unknown-package"] },
    "ledger-counts-repeats": { profile: "workflow", from: 4, by: ["ledger"] },
  };

  for (const mutant of Object.keys(mutants) as Mutant[])
    it(
      `[X42] the injected bug ${mutant} is caught within a thousand seeds, and its seed has no violation without it`,
      async () => {
        const { from, by, profile } = catches[mutant];

        const { violations } = await runCampaign({ from, to: 1_000, profile, plant: mutant, isFirstEnough: true });

        const found = violations.find(({ checker }) => (by as readonly string[]).includes(checker));
        expect(found).toBeDefined();
        expect((await checkSeed({ seed: found?.seed ?? 0, profile })).violations).toEqual([]);
      },
      hour,
    );

  it(
    "[X43] a violation is reported with the smallest schedule that still causes it, and with its trace",
    async () => {
      const { from } = catches["requeue-forgets-fence"];

      const { violations } = await runCampaign({
        from,
        to: 1_000,
        profile: "default",
        plant: "requeue-forgets-fence",
        shrink: true,
        isFirstEnough: true,
      });

      const found = violations.find(({ checker }) => checker === "single-lease");
      expect(found?.schedule?.length).toBeLessThanOrEqual(2);
      expect(found?.message).toContain("did not rise");
      expect(found?.story.map(({ text }) => text).join("\n")).toContain("task.requeued");
    },
    hour,
  );
});
