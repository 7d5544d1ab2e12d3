import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { expectEachRunEndedOnce, submitUntilAccepted } from "../harness/accepted-runs.ts";
import { SchedulerApi, spawnWorker, startScheduler } from "../harness/installation.ts";
import { withTimeout } from "../harness/processes.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

/** Where a crash hurts, and at which pass it falls into the middle of the load. */
const killPoints: readonly (readonly [string, number])[] = [
  ["turn.decided", 12],
  ["postgres.begun", 12],
  ["postgres.committing", 8],
  ["postgres.committed", 8],
];

describe("kill -9 of one of two schedulers on PostgreSQL", () => {
  for (const [point, pass] of killPoints) {
    it(`[O25] kill -9 at ${point} of one of two schedulers on PostgreSQL loses no accepted run and ends none twice`, async () => {
      const env = { ASTRA_SCHEDULER_STORE: await server.createDatabase() };
      const doomed = await startScheduler({ env: { ...env, ASTRA_FAILPOINTS: `${point}=kill@${pass}` } });
      const other = await startScheduler({ env });
      spawnWorker(`${doomed.ws},${other.ws}`);
      const refs = Array.from({ length: 12 }, (_, at) => submitUntilAccepted(new SchedulerApi(doomed.http), at));

      expect(await withTimeout(doomed.process.ended, `the kill at ${point}`)).toEqual({ code: null, signal: "SIGKILL" });
      await startScheduler({ env, dataDir: doomed.dataDir, listen: doomed.listen });

      await expectEachRunEndedOnce(new SchedulerApi(other.http), await Promise.all(refs));
    });
  }
});
