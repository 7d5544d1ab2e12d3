// Which grants count as attempts: those that a worker acked. The number is what people see; retries count failures alone.
import { LedgerFold } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

const seconds = (count: number): number => count * 1_000;

async function passTime(harness: EngineHarness, span: number): Promise<void> {
  for (let passed = 0; passed < span; passed++) await harness.advance(seconds(1));
}

async function startGrantedTask(): Promise<{ harness: EngineHarness; worker: TestWorker; run: string }> {
  const harness = await new EngineHarness().start();
  const worker = await harness.joinWorker("w");
  const run = await harness.startRun(buildChain(1, { policy: { retry: { maxAttempts: 2, backoffMs: 0 } } }));
  await harness.settle();
  return { harness, worker, run };
}

async function ledgerOf(harness: EngineHarness, run: string) {
  const page = await harness.store.events({ tenant: "t1", after: 0, limit: 1_000, subject: `run/${run}` });
  return new LedgerFold(null).add(page.items).finish().figures;
}

describe("the number of an attempt", () => {
  it("[B94] a task whose worker was lost runs as attempt 2 elsewhere, and the ledger counts it as repeated", async () => {
    const { harness, worker, run } = await startGrantedTask();
    await worker.ack();
    await worker.disconnect();
    await passTime(harness, 32);
    const other = await harness.joinWorker("v");
    await harness.settle();
    await other.ack();
    await other.succeed({});

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "succeeded", attempt: 2, failures: 0 }]);
    expect(await ledgerOf(harness, run)).toMatchObject({ accepted: 1, finished: 1, attempts: 2, repeated: 1 });
  });

  it("[B94] an attempt that is taken back after its ack, before the ack is stored, counts as well", async () => {
    const { harness, worker, run } = await startGrantedTask();
    await worker.ack();

    await harness.joinWorker("w", { boot: "another" });
    await harness.settle();

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", attempt: 2 }]);
    expect(await ledgerOf(harness, run)).toMatchObject({ accepted: 1, repeated: 1 });
  });

  it("[B94] a grant that no worker acked is not counted: the next one has its number", async () => {
    const { harness, worker, run } = await startGrantedTask();
    const first = worker.lastDispatch;
    await passTime(harness, 6);
    expect(worker.lastDispatch.fence).toBeGreaterThan(first.fence);
    expect(worker.lastDispatch.attempt).toBe(1);
    await worker.ack();
    await worker.succeed({});

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "succeeded", attempt: 1 }]);
    expect(await ledgerOf(harness, run)).toMatchObject({ accepted: 1, finished: 1, attempts: 2, repeated: 0 });
  });

  it("[B94] retries count failures alone, whatever number the attempt has", async () => {
    const { harness, worker, run } = await startGrantedTask();
    await passTime(harness, 6);
    await worker.ack();
    await harness.joinWorker("w", { boot: "another" }).then(async (again) => {
      await harness.settle();
      await again.error("E.RUNNER.FAILURE");
      await harness.settle();
      expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", attempt: 3, failures: 1 }]);
      await again.error("E.RUNNER.FAILURE");
    });

    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "failed", attempt: 3 }]);
  });
});
