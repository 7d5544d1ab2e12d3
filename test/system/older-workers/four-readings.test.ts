import type { LogLine, WorkerDiagnostics } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { SchedulerApi, startScheduler } from "../harness/installation.ts";
import { withTimeout } from "../harness/processes.ts";
import { chainOfHandTasks, HandWrittenWorker, type Reading } from "./hand-written-worker.ts";

const readings: readonly { readonly reading: Reading; readonly dialect: string; readonly resumed: boolean }[] = [
  { reading: "specification", dialect: "basic", resumed: true },
  { reading: "first", dialect: "first", resumed: false },
  { reading: "v1", dialect: "v1", resumed: false },
  { reading: "v2", dialect: "v2", resumed: true },
];

it.each(readings)(
  "[O102] a worker written by hand in the reading $reading is accepted, runs a chain of three over a cut, and nothing runs twice",
  async ({ reading, dialect, resumed }) => {
    const { http, ws } = await startScheduler();
    const api = new SchedulerApi(http);
    const packageName = `hand.${reading}`;
    const worker = new HandWrittenWorker(ws, { reading, packageName });
    try {
      expect(await withTimeout(worker.connect(), "the accept")).toEqual({ resumed: false });
      // The specification alone names no packages over its socket; here somebody else does, for all four.
      const packages = [{ name: packageName, version: "1.0.0" }];
      const response = await api.send("POST", "/api/workers/heartbeat", { workerId: worker.instance, packages });
      expect(response.status).toBe(200);

      const warm = await api.startRun(chainOfHandTasks(packageName, "warm"), "warm");
      expect((await api.waitForRunEnd(warm.runId)).status).toBe("succeeded");
      worker.isHolding = true;
      const { runId } = await api.startRun(chainOfHandTasks(packageName, "over a cut"), "cut");
      await withTimeout(
        worker.until(() => worker.heldCount === 1),
        "the first task",
      );
      worker.cut();
      expect(await withTimeout(worker.connect(), "the session after the cut")).toEqual({ resumed });
      worker.finish();

      const run = await api.waitForRunEnd(runId);
      expect(run.nodes?.map(({ status, result, attempt }) => [status, result, attempt])).toEqual(
        Array(3).fill(["succeeded", { text: "OVER A CUT" }, 1]),
      );
      const { items } = await api.get<{ items: LogLine[] }>(`/api/v1/runs/${runId}/logs?channel=browser`);
      expect(items.map(({ text }) => text)).toContain("page opened");
      const { session } = await api.get<WorkerDiagnostics>(`/api/v1/workers/${worker.instance}/diagnostics`);
      expect(session).toMatchObject({ phase: "online", dialect });
    } finally {
      worker.close();
    }
  },
);
