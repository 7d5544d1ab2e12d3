// Steps of a scheduler that fail again and again, on the real engine: what else goes on.

import type { PageQuery, StoreReader } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { createHarnessLink } from "../harness/harness-link.ts";
import { caller, type FleetFixture, openFleet, packageName, startRollout, tenant } from "./fleet-fixture.ts";

const install = async ({ services }: FleetFixture, version: string) =>
  (await services.fleet.installs.start(caller, packageName, { version, all: true }, null)).install.installId;
const rollOut = async (fleet: FleetFixture) => (await startRollout(fleet, { phases: ["100%"], observeMs: 0 })).rolloutId;
/** Steps in which something fails. */
async function failingSteps(fleet: FleetFixture, scheduler: FleetFixture["services"], count: number): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    await scheduler.fleet.loop.step(tenant);
    await fleet.answer();
  }
}
const failedOperations = ({ environment }: FleetFixture) =>
  new Set(environment.logRecords.flatMap(({ event, operation }) => (event === "fleet.step" ? [operation] : [])));

describe("steps that fail", () => {
  it("[A1222] a rollout and an install that cannot be written are named in the log, and hold up no other", async () => {
    const fleet = await openFleet(0);
    await fleet.join("a");
    const [rolloutId, broken, fine] = [await rollOut(fleet), await install(fleet, "1.1.0"), await install(fleet, "1.0.0")];
    const link = createHarnessLink(fleet.harness);
    const { request: forward } = link;
    const request: typeof forward = async (command) => {
      if (command.type === "docs.write" && command.puts.some(({ name }) => name === rolloutId || name === broken))
        throw new Error("this document cannot be written");
      return forward(command);
    };
    const scheduler = fleet.openScheduler({ engineClient: Object.assign(link, { request }) });

    await failingSteps(fleet, scheduler, 4);

    expect([(await fleet.rollout(rolloutId)).status, (await fleet.install(broken)).status]).toEqual(["running", "running"]);
    expect((await fleet.install(fine)).status).toBe("done");
    expect(failedOperations(fleet)).toEqual(new Set([rolloutId, broken]));
  });

  it("[A1222] where rollouts cannot even be read, installs go on", async () => {
    const fleet = await openFleet(0);
    const worker = await fleet.join("a");
    const id = await install(fleet, "1.0.0");
    const { store } = fleet.harness;
    const reader: StoreReader = {
      events: (query) => store.events(query),
      close: () => store.close(),
      page: async <Q extends PageQuery>(query: Q) => {
        if (query.page === "docs" && query.collection === "rollout") throw new Error("these documents cannot be read");
        return store.page(query);
      },
    };

    await failingSteps(fleet, fleet.openScheduler({ reader }), 3);

    expect((await fleet.install(id)).status).toBe("done");
    expect(worker.versions).toEqual(["1.0.0"]);
  });

  it("[A1222] a rollout ends as finished although what is too old cannot be found out", async () => {
    const keptVersionsOf = () => {
      throw new Error("the configuration cannot be read");
    };
    const fleet = await openFleet(1, { keptVersionsOf });
    const [worker] = fleet.workers;
    const rolloutId = await rollOut(fleet);

    await failingSteps(fleet, fleet.services, 4);

    expect((await fleet.rollout(rolloutId)).status).toBe("finished");
    expect(worker?.versions).toEqual(["1.0.0", "1.1.0"]);
    expect(failedOperations(fleet)).toEqual(new Set([rolloutId]));
  });
});
