// Attempts that may have begun when their worker is lost, of adapters that declare another idempotency than per_request.
import type { PackageDocument } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { buildChain, EngineHarness, type TestWorker } from "../harness/engine-harness.ts";

interface NodeChanges {
  readonly policy?: Record<string, unknown>;
  readonly idempotency?: string | null;
  readonly manifest?: string;
  readonly length?: number;
}

/** A chain whose nodes declare `none` unless said otherwise. */
function buildDeclared({ policy, idempotency = "none", manifest, length = 1 }: NodeChanges = {}): Record<string, unknown> {
  const workflow = buildChain(length, policy === undefined ? {} : { policy });
  const declared = { ...(idempotency !== null && { idempotency }), ...(manifest !== undefined && { manifest }) };
  const nodes = (workflow["nodes"] as { package: object }[]).map((node) => ({
    ...node,
    package: { ...node.package, ...declared },
  }));
  return { ...workflow, nodes };
}

async function passTime(harness: EngineHarness, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second++) await harness.advance(1_000);
}

const passLease = (harness: EngineHarness): Promise<void> => passTime(harness, harness.settings.leaseMs / 1_000 + 2);

/** A run whose first task is granted to worker `first`. */
async function startGranted(changes: NodeChanges = {}, acks = true) {
  const harness = await new EngineHarness().start();
  const first = await harness.joinWorker("first");
  const run = await harness.startRun(buildDeclared(changes));
  await harness.settle();
  if (acks) await first.ack();
  return { harness, first, run };
}

/** The worker falls silent with the task, and another one joins. */
async function loseFirstWorker(changes: NodeChanges = {}) {
  const started = await startGranted(changes);
  await passLease(started.harness);
  const second = await started.harness.joinWorker("second");
  await started.harness.settle();
  return { ...started, second };
}

async function errorOf(harness: EngineHarness, run: string) {
  return JSON.parse((await harness.runDetail(run)).run.error ?? "{}") as { code?: string; message?: string; details?: object };
}

const countDispatches = (...workers: TestWorker[]): number[] => workers.map(({ dispatchesSent }) => dispatchesSent.length);

describe("a lost worker and a node that must not be repeated silently", () => {
  it("[B1151] an acked attempt of an adapter that declares another idempotency than per_request ends with E.WORKER.LOST and is granted to nobody else", async () => {
    const { harness, first, second, run } = await loseFirstWorker({ length: 2 });

    expect(countDispatches(first, second)).toEqual([1, 0]);
    expect((await harness.runDetail(run)).run.phase).toBe("failed");
    const { code, message, details } = await errorOf(harness, run);
    expect(code).toBe("E.WORKER.LOST");
    expect(details).toMatchObject({ worker: "first", package: "test", version: "1.0.0", idempotency: "none", mayHaveRun: true });
    for (const part of ["may have begun on worker first", "requeue its dead letter", "maxDeliveries"])
      expect(message).toContain(part);
    const { items } = await harness.store.page({ page: "docs", tenant: "t1", collection: "letter", limit: 10 });
    expect(items.map(({ body }) => JSON.parse(body) as object)).toMatchObject([{ run, code: "E.WORKER.LOST", status: "open" }]);
  });

  it("[B1151] the outcome of a worker that comes back after its task ended that way is refused and changes nothing", async () => {
    const { harness, first, run } = await loseFirstWorker();
    const [dispatch] = first.dispatchesSent;

    const back = await harness.joinWorker("first", { running: [{ task: dispatch?.task ?? "", fence: dispatch?.fence ?? 0 }] });
    await expect(back.succeed({ out: 1 }, dispatch)).rejects.toMatchObject({ code: "E.RESULT.DUPLICATE" });

    expect((await harness.runDetail(run)).run.phase).toBe("failed");
  });

  it.each(["per_request", null])(
    "[B1151] an attempt of an adapter that declares %s goes to the next worker, as a node that may be repeated",
    async (idempotency) => {
      const { second, run, harness } = await loseFirstWorker({ idempotency });

      await second.succeed({});

      expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
    },
  );

  it("[B1151] a retry policy of the node counts the attempt as failed and tries again while it has attempts left", async () => {
    const { harness, first, run } = await startGranted({ policy: { retry: { maxAttempts: 2, backoffMs: 0 } } });
    await passLease(harness);
    const second = await harness.joinWorker("second");
    await harness.settle();
    expect(countDispatches(first, second)).toEqual([1, 1]);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", failures: 1, attempt: 2 }]);

    await second.ack();
    await passLease(harness);
    const third = await harness.joinWorker("third");
    await harness.settle();

    expect(countDispatches(third)).toEqual([0]);
    expect(await errorOf(harness, run)).toMatchObject({ code: "E.WORKER.LOST", details: { worker: "second" } });
  });

  it("[B1151] maxDeliveries in the node's policy allows the scheduler to repeat the attempt so often", async () => {
    const { harness, second, run } = await loseFirstWorker({ policy: { maxDeliveries: 2 } });

    expect(countDispatches(second)).toEqual([1]);
    await second.ack();
    await passLease(harness);

    expect(await errorOf(harness, run)).toMatchObject({ code: "E.WORKER.LOST", details: { deliveries: 2 } });
  });

  it("[B1151] an acked attempt that a new process of its worker does not name, or that a heartbeat no longer lists, ends too", async () => {
    const restarted = await startGranted();
    await restarted.harness.joinWorker("first", { boot: "first-boot-2" });
    const forgetful = await startGranted();
    await passTime(forgetful.harness, 10);
    await forgetful.first.heartbeat([]);

    for (const { harness, run } of [restarted, forgetful]) {
      expect(await errorOf(harness, run)).toMatchObject({ code: "E.WORKER.LOST", details: { mayHaveRun: true } });
      expect(harness.dispatches()).toHaveLength(1);
    }
  });

  it("[B1151] an attempt whose ack may be on its way counts as begun: a new process of its worker does not get it", async () => {
    const { harness, run } = await startGranted({}, false);

    await harness.joinWorker("first", { boot: "first-boot-2" });
    await harness.settle();

    expect(await errorOf(harness, run)).toMatchObject({ code: "E.WORKER.LOST" });
    expect(harness.dispatches()).toHaveLength(1);
  });
});

describe("a grant without an ack of a node that must not be repeated silently", () => {
  const { ackDeadlineMs, leaseMs } = new EngineHarness().settings;

  /** So many seconds pass after the dispatch, with heartbeats of the worker that has it, and of an idle one. */
  async function passHeartbeats(seconds: number, listsAttempt = false) {
    const started = await startGranted({}, false);
    const { harness, first } = started;
    const second = await harness.joinWorker("second");
    for (let second_ = 0; second_ < seconds; second_++) {
      await harness.advance(1_000);
      await first.heartbeat(listsAttempt ? [first.lastDispatch] : []);
      await second.heartbeat([]);
    }
    return { ...started, second };
  }

  it("[B1155] it stays with its connected worker after the ack deadline, which the log says once, and a late ack and result count", async () => {
    const { harness, first, second, run } = await passHeartbeats(ackDeadlineMs / 1_000 + 5);

    expect(countDispatches(first, second)).toEqual([1, 0]);
    expect((await harness.facts()).filter((type) => type.includes("task.warning"))).toHaveLength(1);
    await first.ack();
    await first.succeed({});
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B1155] it ends with E.WORKER.LOST once the heartbeats of its worker have not listed it for the ack deadline and a lease", async () => {
    const { harness, first, second, run } = await passHeartbeats((ackDeadlineMs + leaseMs) / 1_000 - 1);
    expect((await harness.runDetail(run)).run.phase).toBe("running");

    for (let beat = 0; beat < 3; beat++) {
      await harness.advance(1_000);
      await first.heartbeat([]);
    }
    await harness.settle();

    expect(countDispatches(first, second)).toEqual([1, 0]);
    const { code, message, details } = await errorOf(harness, run);
    expect({ code, details }).toMatchObject({ code: "E.WORKER.LOST", details: { mayHaveRun: true } });
    expect(message).toContain("neither acknowledged this attempt nor lists it in its heartbeats");
  });

  it("[B1155] a heartbeat that lists it counts as its ack: it is kept for as long as it is listed", async () => {
    const { harness, first, second, run } = await passHeartbeats((ackDeadlineMs + leaseMs) / 1_000 + 5, true);

    expect(countDispatches(first, second)).toEqual([1, 0]);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", acked: true }]);
    await first.succeed({});
    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });

  it("[B1155] it has the time limit of an attempt although it was never acked", async () => {
    const { harness, run } = await startGranted({ policy: { timeoutMs: 60_000 } }, false);
    await passTime(harness, ackDeadlineMs / 1_000 + 1);

    const [task] = (await harness.runDetail(run)).tasks;
    expect(task).toMatchObject({ phase: "leased", acked: false });
    expect(task?.due).toBe((task?.grantedAt ?? 0) + 60_000);
  });
});

describe("attempts that surely have not begun", () => {
  it.each([
    ["declares nothing", { idempotency: null }],
    ["declares per_request", { idempotency: "per_request" }],
    ["has a retry policy", { policy: { retry: { maxAttempts: 2 } } }],
    ["has maxDeliveries in its policy", { policy: { maxDeliveries: 2 } }],
  ])(
    "[B1155] a grant that its connected worker never acked is queued again at the ack deadline if its node %s",
    async (_, changes) => {
      const { harness, first, run } = await startGranted(changes, false);
      await passTime(harness, harness.settings.ackDeadlineMs / 1_000 + 1);

      expect(countDispatches(first)).toEqual([2]);
      await first.succeed({});
      expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
    },
  );

  it("[B1151] a grant without an ack that the same process does not list when it joins again counts as begun: it may have stopped it itself", async () => {
    const { harness, first, run } = await startGranted({}, false);
    await first.disconnect();

    const again = await harness.joinWorker("first", { running: [] });
    await harness.settle();

    expect(countDispatches(again)).toEqual([0]);
    expect(await errorOf(harness, run)).toMatchObject({ code: "E.WORKER.LOST" });
  });

  it("[B1152] a task that its worker refuses is queued again, and one that it hands back after its handler began is not", async () => {
    const handBack = async (where: string) => {
      const { harness, first, run } = await startGranted();
      const second = await harness.joinWorker("second");
      const { task, fence } = first.lastDispatch;
      const sender = { tenant: "t1", worker: first.worker, session: first.session, task, fence };
      const error = { code: "E.RUNNER.CANCELLED", message: "the worker is leaving", details: { where } };
      await harness.ask({ type: "task.error", ...sender, ...error });
      await harness.settle();
      return { sent: countDispatches(first, second).reduce((sum, one) => sum + one, 0), error: await errorOf(harness, run) };
    };

    expect(await handBack("worker.link")).toEqual({ sent: 2, error: {} });
    expect(await handBack("worker.concurrency")).toEqual({ sent: 2, error: {} });
    expect(await handBack("worker.runner")).toMatchObject({ sent: 1, error: { code: "E.WORKER.LOST" } });
    expect(await handBack("worker.host")).toMatchObject({ sent: 1, error: { code: "E.WORKER.LOST" } });
  });

  it("[B1152] a person who retries a running node gets another attempt whatever the adapter declares", async () => {
    const { harness, first, run } = await startGranted();
    const [node] = (await harness.runDetail(run)).tasks;

    await harness.ask({ type: "run.retry", tenant: "t1", by: "me", run, node: node?.id ?? "", reason: "it hangs" });
    await harness.settle();

    expect(countDispatches(first)).toEqual([2]);
  });
});

describe("an older worker that may have lost its attempt", () => {
  const older = { dialect: "first", features: [], running: null } as const;

  it("[B1153] it is not sent the dispatch of such a node again: the outcome is waited for until the deadline of the attempt", async () => {
    const harness = await new EngineHarness().start();
    const worker = await harness.joinWorker("w", { ...older, boot: "b1" });
    const run = await harness.startRun(buildDeclared({ policy: { timeoutMs: 600_000 } }));
    await harness.settle();
    await worker.ack();
    const again = await harness.joinWorker("w", { ...older, boot: "b1" });
    for (let beats = 0; beats < 30; beats++) {
      await passTime(harness, 10);
      await again.heartbeat(null);
    }
    expect(countDispatches(worker, again)).toEqual([1, 0]);
    expect((await harness.runDetail(run)).tasks).toMatchObject([{ phase: "leased", attempt: 1 }]);

    await again.succeed({ out: 1 }, worker.lastDispatch);

    expect((await harness.runDetail(run)).run.phase).toBe("succeeded");
  });
});

describe("workers with different manifests", () => {
  it("[B1154] what the manifest of the lost worker declares counts, not that of the workflow", async () => {
    const stored = (digest: string, idempotency: string): PackageDocument =>
      ({
        digest,
        manifest: {
          adapters: [{ name: "main", idempotency }],
          nodes: [{ type: "test.step", adapter: "main", schema: {} }],
        },
      }) as unknown as PackageDocument;
    const loseWorkerWith = async (manifest: string) => {
      const harness = await new EngineHarness().start();
      const body = JSON.stringify({ ...stored("safe", "per_request"), others: [stored("once", "at_most_once")] });
      const puts = [{ collection: "package", name: "test/1.0.0", rev: 0, body }];
      await harness.ask({ type: "docs.write", tenant: "t1", by: "scheduler", puts });
      const worker = await harness.joinWorker("w", {
        packages: [{ name: "test", version: "1.0.0", status: "installed", manifest }],
      });
      const run = await harness.startRun(buildDeclared({ idempotency: null, manifest: "safe" }));
      await harness.settle();
      await worker.ack();
      await passLease(harness);
      return (await harness.runDetail(run)).run.phase;
    };

    expect(await loseWorkerWith("safe")).toBe("running");
    expect(await loseWorkerWith("once")).toBe("failed");
  });
});
