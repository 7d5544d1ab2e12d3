import type { CommandDetail } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { pollUntil, withTimeout } from "../harness/processes.ts";
import { chainOfHandTasks, HandWrittenWorker } from "./hand-written-worker.ts";

it("[O103] a worker that gives up when it finds its socket closed right after a reset comes back after a kick, ten times in a row", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const worker = new HandWrittenWorker(ws, { reading: "first", packageName: "hand.kicked" });
  await withTimeout(worker.connect(), "the accept");
  try {
    for (let kick = 1; kick <= 10; kick++) {
      const response = await api.send("POST", `/api/v1/workers/${worker.instance}/kick`, { reason: "its key leaked" });
      expect(response.status).toBe(202);
      await withTimeout(
        worker.until(() => worker.count("control.reset") === kick),
        "the reset",
      );
      // Such a worker looks at its socket once it has handled the reset: closed means that the scheduler is gone for good.
      expect([kick, worker.isOpen]).toEqual([kick, true]);
      worker.cut();
      await withTimeout(worker.connect(), "the next session");
    }
  } finally {
    worker.close();
  }
});

it("[O103] a worker that cannot stop a cancelled task gets no other task in its place until it has reported the end", async () => {
  const { http, ws } = await startScheduler();
  const api = new SchedulerApi(http);
  const packageName = "hand.stubborn";
  const worker = new HandWrittenWorker(ws, { reading: "first", packageName, slots: 1 });
  const other = new HandWrittenWorker(ws, { reading: "v2", packageName: "hand.other" });
  await withTimeout(Promise.all([worker.connect(), other.connect()]), "the accepts");
  try {
    worker.isHolding = true;
    const cancelled = await api.startRun(chainOfHandTasks(packageName, "cancelled", 1), "cancelled");
    await withTimeout(
      worker.until(() => worker.heldCount === 1),
      "the task",
    );
    expect((await api.send("POST", `/api/v1/runs/${cancelled.runId}/cancel`)).status).toBe(202);
    expect((await api.waitForRunEnd(cancelled.runId)).status).toBe("cancelled");

    const next = await api.startRun(chainOfHandTasks(packageName, "next", 1), "next");
    // Meanwhile tasks are given to workers that have room.
    const others = await api.startRun(chainOfHandTasks("hand.other", "other"), "other");
    expect((await api.waitForRunEnd(others.runId)).status).toBe("succeeded");
    expect(worker.count("biz.exec.dispatch")).toBe(1);

    worker.finish();

    expect((await api.waitForRunEnd(next.runId)).status).toBe("succeeded");
    expect((await api.getRun(cancelled.runId)).status).toBe("cancelled");
  } finally {
    worker.close();
    other.close();
  }
});

it.each(["first", "v1"] as const)(
  "[E1158] an install that a worker of the reading %s acknowledges and never answers ends by its deadline, and its next register shows the outcome",
  async (reading) => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    const worker = new HandWrittenWorker(ws, { reading, packageName: `hand.silent.${reading}` });
    await withTimeout(worker.connect(), "the accept");
    try {
      const order = { type: "pkg.install", name: "extra", version: "2.0.0", url: "https://packages.example/extra.cwx" };
      const response = await api.send("POST", `/api/v1/workers/${worker.instance}/commands`, { ...order, deadlineMs: 1_000 });
      expect(response.status).toBe(202);
      const { commandId } = (await response.json()) as { commandId: string };
      const readCommand = () => api.get<CommandDetail>(`/api/v1/commands/${commandId}`);
      const ended = await pollUntil("the deadline of the command", async () => {
        const command = await readCommand();
        return command.status !== "sent" && command;
      });
      expect(ended).toMatchObject({ status: "failed", error: { code: "E.TIMEOUT" } });
      expect(ended).not.toHaveProperty("result");

      worker.otherPackages.push({ name: "extra", version: "2.0.0" });
      worker.cut();
      await withTimeout(worker.connect(), "the next register");

      const shown = await pollUntil("the outcome", async () => {
        const command = await readCommand();
        return command.result !== undefined && command;
      });
      expect(shown).toMatchObject({ status: "failed", result: { lateOutcome: { status: "installed" } } });
    } finally {
      worker.close();
    }
  },
);
