// Workers that end properly: shown as such, while what waits for them is treated as if they were lost.
import { readCondition } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

const leave = (harness: EngineHarness, { tenant, worker, session }: TestWorker, isOrderly = true) =>
  harness.ask({
    type: "worker.leave",
    tenant,
    worker,
    session,
    reason: "socket closed with 1000",
    ...(isOrderly && { isOrderly }),
  });

/** Steps that no scheduler takes for an absence of its own. */
async function passLease(harness: EngineHarness): Promise<void> {
  for (let second = 0; second < 31; second += 1) await harness.advance(1_000);
}

describe("workers that left", () => {
  it("[B630] a worker that closed its session itself and held nothing has left: its lease ends without a loss, and it may join again", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w");

    await leave(harness, worker);
    const waiting = await harness.workerRow(worker.worker);
    await passLease(harness);

    expect([waiting.phase, readCondition(waiting.condition).hasLeft]).toEqual(["away", true]);
    expect(await harness.workerRow(worker.worker)).toMatchObject({ phase: "left", due: null });
    const facts = await harness.facts("t1", `worker/${worker.worker}`);
    expect(facts).toContain("worker.gone");
    expect(facts).not.toContain("worker.lost");
    await harness.joinWorker("w");
    const back = await harness.workerRow(worker.worker);
    expect([back.phase, readCondition(back.condition).hasLeft]).toEqual(["online", undefined]);
  });

  it("[B631] a worker is lost and has not left if it held a task when it closed its session, or if the session just ended", async () => {
    const harness = await new EngineHarness().start();
    const busy = await harness.joinWorker("busy");
    await harness.startRun(buildChain(1));
    await harness.settle();
    const idle = await harness.joinWorker("idle");
    await busy.ack();

    await leave(harness, busy);
    await leave(harness, idle, false);
    await passLease(harness);

    const phases = [await harness.workerRow(busy.worker), await harness.workerRow(idle.worker)].map(({ phase }) => phase);
    expect(phases).toEqual(["lost", "lost"]);
  });
});
