// Containers, maps, chains and given nodes on a real PostgreSQL, with one engine and with two that share it.
import type { PresetResult, StartRun } from "@astraflow/engine";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { flow, row, type Shape } from "./flow-graph.ts";
import { type Fails, Model, type Path, randomShape } from "./flow-model.ts";
import { bySlot, checkRun, type Dispatch, Robot, resultOf, slot } from "./flow-robot.ts";
import type { Harness } from "./harness.ts";
import { mortal, Town } from "./postgres-town.ts";
import { Dice } from "./weather-dice.ts";

let server: PostgresServer;
let town: Town;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());
afterEach(() => town.close());

const counted = (dispatch: Dispatch, params: Record<string, unknown>) => ({
  done: { out: "index" in params ? Number(params["index"]) + 1 : "item" in params ? params["item"] : dispatch.node },
});

/** A worker at each engine of the town. */
const robots = (slots: number, reply: Robot["reply"] = counted): Promise<Robot[]> =>
  Promise.all(
    town.engines.map(async (world, at) => new Robot(world, [await world.join(`w${at}`, { slots, boot: `w${at}-b` })], reply)),
  );

/** Which iterations, and tries of them, are around a leaf. */
async function pathOf(world: Harness, { task }: Dispatch): Promise<Path> {
  const ids = [...task.matchAll(/\*\d+(?=\/)/g)].map(({ index, 0: text }) => task.slice(0, index + text.length));
  const pages = await Promise.all(ids.map((id) => world.store.page({ page: "task", tenant: "t1", task: id })));
  return pages.map(({ task: frame }) => (JSON.parse(frame?.state ?? "{}") as { frame: Path[number] }).frame);
}

describe("random workflows on PostgreSQL", () => {
  for (const names of [["a"], ["a", "b"]])
    it.for([1, 3, 5, 6])(
      `[E100] come to the end that the rules say, with ${names.length} engine(s) on one database (seed %i)`,
      async (seed) => {
        const dice = new Dice(seed * 31);
        town = await Town.found(server, names, { sweepTasksMax: dice.pick([2, 7, 500]) });
        const [first] = town.engines as [Harness];
        const bad = seed % 3 === 0 ? new Dice(seed).below(3) : -1;
        const fails: Fails = (node, path) =>
          bad >= 0 && (node.length + path.reduce((sum, { tries }) => sum + tries, 0)) % 5 === bad;
        const crews = await robots(3, async (dispatch, params) =>
          fails(dispatch.node, await pathOf(first, dispatch)) ? { fail: "E.RUNNER.FAILURE" } : counted(dispatch, params),
        );
        const shape = randomShape(dice, 0, 30);

        const run = await first.run(flow(shape));
        for (let look = 0; look < 60; look++) {
          await town.work(crews);
          if ((await first.detail(run)).run.endedAt !== null) break;
          await town.pass(1);
        }

        const { run: over, tasks } = await checkRun(first, run);
        const at = bySlot(tasks);
        const values = over.phase === "succeeded" ? shape.nodes.map((_, ordinal) => resultOf(at[ordinal])) : null;
        expect(values).toEqual(new Model(fails).values(shape, "", [], null));
        expect(town.problems).toEqual([]);
      },
    );
});

describe("a map of 2,000 items and two engines", () => {
  const items = Array.from({ length: 2_000 }, (_, at) => at);
  const map = flow(row({ loop: { mode: "map", items, parallelism: 1_000 }, body: row({}), inputs: [["item", 0]] }, {}));

  it.for(["before", "after"] as const)(
    "[E101] loses and doubles nothing when one of them is cut off in the middle, %s a commit was stored",
    async (when) => {
      town = await Town.found(server, ["b"]);
      const [west] = town.engines as [Harness];
      const fate = mortal(12, when);
      const east = await town.boot("a", {}, fate.wrap);
      const crews = await robots(300);
      const run = await west.run(map);
      let isDead = false;
      const end = fate.died.then(() => {
        isDead = true;
      });
      // Only the one that is to die works at first; it gets its part of the run once it finds it in nobody's hands.
      for (let look = 0; !isDead && look < 30; look++)
        await Promise.race([end, (crews[1] as Robot).work().then(() => town.rest())]);
      town.bury(east);
      expect(isDead).toBe(true);

      // Its worker comes to the other engine, and names what it holds: it has answered none of it there.
      const held = (crews[1] as Robot).seen.map(({ task, fence }) => ({ task, fence }));
      const crew = await west.join("w1", { slots: 300, boot: "w1-b", running: held });
      const answered = held.map((one) => crew.done({ out: items[Number(one.task.match(/\*(\d+)/)?.[1] ?? 0)] }, one));
      const refused = (await Promise.allSettled(answered)).filter((one) => one.status === "rejected");
      expect(refused.map(({ reason }) => (reason as { code: string }).code)).toEqual(
        refused.map(() => "E.SESSION.STALE_BINDING"),
      );
      const robot = new Robot(west, [crew], counted);
      for (let look = 0; look < 40 && (await west.detail(run)).run.endedAt === null; look++) {
        await town.work([crews[0] as Robot, robot]);
        await town.pass(1);
        for (const one of [(crews[0] as Robot).crews[0], crew]) await one?.beat(null);
      }

      const { run: over, tasks } = await checkRun(west, run);
      expect(over.phase).toBe("succeeded");
      expect(resultOf(bySlot(tasks)["0"])).toEqual({ items: items.map((out) => ({ out })), count: 2_000 });
      expect(tasks.filter((task) => /^0\*\d+\/0$/.test(slot(task)))).toHaveLength(2_000);
    },
  );
});

describe("fan-outs and given nodes", () => {
  it("[E102] a fan-out of 1,200 whose workers sit at both engines is joined once, from given nodes on", async () => {
    town = await Town.found(server, ["a", "b"]);
    const [first] = town.engines as [Harness];
    const crews = await robots(200);
    const width = 1_200;
    const shape: Shape = {
      nodes: Array.from({ length: width + 2 }, () => ({})),
      edges: Array.from({ length: width }, (_, at) => at + 1).flatMap((at) => [[0, at] as const, [at, width + 1] as const]),
    };
    const pin: PresetResult = { status: "succeeded", result: '{"out":"pinned"}', why: "pin" };

    const answer = await first.ask({ ...(first.order(flow(shape)) as StartRun), presetResults: { 0: pin } });
    if (answer.of !== "run") throw new Error("no run");
    await town.work(crews);

    const { run: over, tasks } = await checkRun(first, answer.run);
    expect(over.phase).toBe("succeeded");
    expect(tasks).toHaveLength(width + 2);
    expect(crews.reduce((sum, { seen }) => sum + seen.length, 0)).toBe(width + 1);
    expect(JSON.parse(bySlot(tasks)["1"]?.params ?? "")).toEqual({ in: "pinned" });
    expect(town.problems).toEqual([]);
  });
});

describe("what a turn costs", () => {
  const looped = (mode: string, length: number) => {
    const items = Array.from({ length }, (_, at) => at);
    return flow(row({ loop: { mode, items, parallelism: 100 }, body: row({}), inputs: [["item", 0]] }, {}));
  };

  it.for([
    ["a chain of ten", flow(row(...Array.from({ length: 10 }, () => ({})))), 1],
    ["a map of 300 items", looped("map", 300), 4],
    ["a loop over 60 items", looped("forEach", 60), 4],
  ] as const)("[E107] two round trips, one to begin and one to commit: %s", async ([, workflow, extraMax]) => {
    town = await Town.found(server, ["a"]);
    const [world] = town.engines as [Harness];
    const [robot] = (await robots(200)) as [Robot];
    // Routes and plans are met for the first time.
    await world.run(workflow);
    await robot.work();
    const before = town.stats(0);

    const run = await world.run(workflow);
    await robot.work();

    const { turns, roundTrips } = town.stats(0);
    expect((await world.detail(run)).run.phase).toBe("succeeded");
    expect(roundTrips - before.roundTrips - 2 * (turns - before.turns)).toBeLessThanOrEqual(extraMax);
  });
});
