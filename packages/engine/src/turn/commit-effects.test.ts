// Positions of the log as the store gives them, seen by the engine.
import { describe, expect, it } from "vitest";
import { Fleet } from "../core/fleet/fleet.ts";
import { UnitOfWork } from "../core/unit-of-work/unit-of-work.ts";
import { defaultSettings } from "../interface/settings.ts";
import type { EngineProblem, World } from "../interface/world.ts";
import { sampleContext } from "../testing/sample-rows.ts";
import { CommitEffects } from "./commit-effects.ts";
import type { DecidedTurn } from "./pending-turns.ts";
import { RouteRegistry } from "./route-registry.ts";

/** Publishes turns of three facts each, whose first positions are these. */
function publishTurns(firstPositions: readonly number[], turnsInFlight: number): EngineProblem[] {
  const problems: EngineProblem[] = [];
  const world = { emit: () => undefined, reportProblem: (problem) => problems.push(problem) } as Partial<World> as World;
  const fleet = new Fleet();
  const effects = new CommitEffects(world, fleet, new RouteRegistry(fleet), { ...defaultSettings, turnsInFlight });
  for (const first of firstPositions) {
    const work = new UnitOfWork({ now: 1, row: () => null, tasks: () => [], peekWorker: () => null }, sampleContext());
    for (let facts = 0; facts < 3; facts++) work.recordFact("t1", "worker/t1/w", "worker.left", {});
    const turn = { work, decision: { answers: [] } } as unknown as DecidedTurn;
    try {
      effects.publish(turn, new Map([["t1", first]]));
    } catch {
      return problems;
    }
  }
  return [];
}

describe("positions of a tenant's log", () => {
  it("[U21] the engine reports E.INTERNAL and stops publishing when a turn gets log positions that are not above those of the turn before", () => {
    expect(publishTurns([1, 4, 9], 1)).toEqual([]);
    expect(publishTurns([1, 3], 1)).toMatchObject([{ code: "E.INTERNAL", cause: { rule: "position order" } }]);
    expect(publishTurns([4, 1], 1)).toHaveLength(1);
  });

  it("[U21] a tenant's log positions may arrive out of order where several turns are in flight, but never overlap", () => {
    expect(publishTurns([4, 1, 7], 4)).toEqual([]);
    expect(publishTurns([4, 2], 4)).toHaveLength(1);
  });
});
