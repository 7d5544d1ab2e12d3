import type { ReportResourceRemovedCommand, StoreReader } from "@astraflow/engine";
import { createLostResourceFinder } from "@astraflow/services";
import { createFakeDocumentStore } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { handshakePayload, registerPayload } from "../../testing/fake-worker.ts";

const fixtures: DoorsFixture[] = [];
afterEach(async () => {
  for (const fixture of fixtures.splice(0)) await fixture.stop();
});

const named = handshakePayload().worker.worker_name;

/** A fixture with documents in which worker w-1 keeps `file` and `model`, and another of the same name something else. */
async function open(hold: Promise<void> = Promise.resolve()) {
  const docs = createFakeDocumentStore();
  const put = (name: string, worker: string, more: object = {}) => ({
    collection: "artifact",
    name,
    terms: `file ${named}`,
    body: JSON.stringify({ worker, workerName: named, run: "r", task: "r.0", node: "n", type: "file", ttlMs: 1, ...more }),
  });
  const own = ["file", "model"].map((name) => put(name, "default/w-1"));
  const gone = put("gone", "default/w-1", { removed: "evicted" });
  docs.write({ tenant: "default", puts: [...own, gone, put("other", "default/w-2")] });
  const page: typeof docs.reader.page = async (query) => {
    await hold;
    return docs.reader.page(query);
  };
  const fixture = await openDoorsFixture({ engineClient: docs.engineClient, reader: { ...docs.reader, page } });
  fixtures.push(fixture);
  const join = async (more: object, features: readonly string[] = ["fence", "resources"]) => {
    const worker = await fixture.connectWorker();
    worker.sendFrame("control.handshake", handshakePayload(), { ack: { request: true } });
    await worker.nextFrame("control.ack");
    worker.sendFrame("control.register", registerPayload({ ...more }, features), { ack: { request: true } });
    await worker.nextFrame("control.ack");
    await worker.nextFrame("control.session.accept");
    return worker;
  };
  return { docs, fixture, join };
}

const removals = (commands: readonly { type: string }[]) =>
  commands.filter((command): command is ReportResourceRemovedCommand => command.type === "resource.removed");

describe("what a worker keeps", () => {
  it("[W180] a worker's frame about removed resources reports each of them to the engine, and is acked once all are stored", async () => {
    const { docs, join } = await open();
    const worker = await join({});

    const items = [
      { resource_id: "file", reason: "evicted" },
      { resource_id: "model", reason: "released" },
    ];
    const id = worker.sendWorkFrame("biz.resource.removed", { items });

    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: true, for: id, ack_seq: 0 });
    expect(removals(docs.engine.commands).map(({ resource, reason, worker: by }) => [resource, reason, by])).toEqual([
      ["file", "evicted", "default/w-1"],
      ["model", "released", "default/w-1"],
    ]);
  });

  it("[W184] after a register that lists the worker's resources, recorded ones that are not listed are lost, of this worker alone", async () => {
    const { docs, join } = await open();

    await join({ resources: ["file"] });
    const command = await docs.engine.nextCommand("resource.removed");

    expect(command).toMatchObject({ resource: "model", reason: "lost", worker: "default/w-1", seenAt: 1_760_000_000_000 });
    expect(removals(docs.engine.commands)).toHaveLength(1);
  });

  it("[W184] resources are not compared for a worker without the resources feature, nor for one whose register has no list of them", async () => {
    const { docs, join } = await open();

    const older = await join({ resources: [] }, ["fence"]);
    const silent = await join({});
    for (const worker of [older, silent]) await worker.untilProcessed();

    expect(docs.queries.filter((query) => query.page === "docs" && query.collection === "artifact")).toEqual([]);
  });

  it("[W184] the comparison of resources counts those that the worker's results add while it runs", async () => {
    const gate = Promise.withResolvers<void>();
    const { docs, join } = await open(gate.promise);
    const worker = await join({ resources: ["file"] });
    const artifacts = [{ resource_id: "model", worker_name: named, type: "model" }];
    worker.sendWorkFrame("biz.exec.result", {
      run_id: "r",
      task_id: "r.1",
      fence: 1,
      status: "SUCCEEDED",
      result: {},
      artifacts,
    });
    await docs.engine.nextCommand("task.result");

    gate.resolve();
    for (let n = 0; n < 3; n++) await worker.untilProcessed();

    expect(removals(docs.engine.commands)).toEqual([]);
  });

  it("[W184] resources are compared for four workers at once and for the others in turn, even when one comparison fails", async () => {
    const asked: PromiseWithResolvers<void>[] = [];
    const page = (async () => {
      const one = Promise.withResolvers<void>();
      asked.push(one);
      await one.promise;
      return { items: [], next: null, head: 0 };
    }) as unknown as StoreReader["page"];
    const compare = createLostResourceFinder({ reader: { page } as StoreReader });
    const ends = Array.from({ length: 6 }, (_, n) =>
      compare({ tenant: "t", worker: `t/w${n}`, name: "w", present: new Set() }).then(
        () => "compared",
        () => "failed",
      ),
    );
    expect(asked).toHaveLength(4);

    asked[0]?.reject(new Error("the store is away"));
    asked[1]?.resolve();
    expect(await Promise.all(ends.slice(0, 2))).toEqual(["failed", "compared"]);
    expect(asked).toHaveLength(6);
    for (const one of asked) one.resolve();

    expect(await Promise.all(ends)).toEqual(["failed", ...Array.from({ length: 5 }, () => "compared")]);
  });
});
