// Workflows on two real schedulers that share a PostgreSQL, with a worker at each: started at one, watched and steered at the other.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Bulk, RunRef, Workflow } from "@astraflow/protocol";
import { SseTestReader } from "@astraflow/protocol/testing";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SchedulerApi, type SchedulerOptions, startScheduler, startWorker } from "../harness/installation.ts";
import { pollUntil, repositoryRoot, waitMsMax } from "../harness/processes.ts";
import { sleepingWorkflow } from "../harness/workflows.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

async function startPair(options: SchedulerOptions = {}) {
  const url = await server.createDatabase();
  const start = () => startScheduler({ ...options, env: { ASTRA_SCHEDULER_STORE: url, ...options.env } });
  const [east, west] = await Promise.all([start(), start()]);
  return { east, west, atEast: new SchedulerApi(east.http), atWest: new SchedulerApi(west.http) };
}

const example = (name: string): Workflow =>
  JSON.parse(readFileSync(join(repositoryRoot, "docs", "examples", `${name}.json`), "utf8")) as Workflow;

interface ReceivedEvent {
  readonly id: string;
  readonly type: string;
  readonly data: string;
}

/** Reads events until `isEnough` of what came; then it hangs up. */
async function readEventsUntil(
  http: string,
  query: string,
  after: string | null,
  isEnough: (events: readonly ReceivedEvent[]) => boolean,
) {
  const response = await fetch(`${http}/api/v1/events?${query}`, {
    headers: { authorization: "Bearer dev-token", ...(after !== null && { "last-event-id": after }) },
    signal: AbortSignal.timeout(waitMsMax),
  });
  if (response.status !== 200) throw new Error(`/events answered ${response.status}`);
  const reader = new SseTestReader(response.body);
  const events: ReceivedEvent[] = [];
  let known = 0;
  // Stops exactly at the event that is enough, even if later ones have arrived with it.
  const isDone = () => {
    for (const { id, type, data } of reader.events.slice(known)) {
      known += 1;
      if (data !== null) events.push({ id: id ?? "", type: type ?? "", data });
      if (isEnough(events)) return true;
    }
    return false;
  };
  if (!(await reader.readUntil(isDone))) throw new Error(`the stream of ${http} ended after ${events.length} events`);
  await reader.close();
  return events;
}

const hasRunEnded = (events: readonly ReceivedEvent[]): boolean =>
  events.some(({ type, data }) => type === "run.status" && /"(succeeded|failed|cancelled)"/.test(data));

describe("workflows on two schedulers", () => {
  it("[O90] a run started at one scheduler has the same events, order and ids at the other, also for a reader that switches between them", async () => {
    const { east, west, atEast, atWest } = await startPair();
    await Promise.all([startWorker(east.ws, { name: "eastern", slots: 1 }), startWorker(west.ws, { name: "western", slots: 1 })]);

    for (const name of ["welcome-journey", "map", "loop"]) {
      const { runId } = await atEast.startRun(example(name), name);
      const query = `runId=${runId}`;
      const whole = readEventsUntil(west.http, query, "0", hasRunEnded);
      // Another reader hangs up after some events and goes on at the other scheduler, again and again.
      const pieces: ReceivedEvent[] = [];
      for (const at of [west, east, west, east, west]) {
        const last = pieces.at(-1)?.id ?? "0";
        if (hasRunEnded(pieces)) break;
        const isLast = at === west && pieces.length > 8;
        pieces.push(
          ...(await readEventsUntil(at.http, query, last, (events) => hasRunEnded(events) || (!isLast && events.length >= 3))),
        );
      }
      if (!hasRunEnded(pieces)) pieces.push(...(await readEventsUntil(east.http, query, pieces.at(-1)?.id ?? "0", hasRunEnded)));
      const events = await whole;

      expect((await atWest.waitForRunEnd(runId)).status).toBe("succeeded");
      const ids = events.map(({ id }) => id);
      expect(new Set(ids).size).toBe(ids.length);
      const stable = ({ id, type }: ReceivedEvent) => `${id} ${type}`;
      const lastId = events.at(-1)?.id;
      const upTo = (list: readonly ReceivedEvent[]) => list.slice(0, list.findIndex(({ id }) => id === lastId) + 1).map(stable);
      expect(upTo(pieces)).toEqual(upTo(events));
      expect(await atWest.getRun(runId)).toMatchObject({ ...(await atEast.getRun(runId)), asOf: expect.anything() });
    }
  });

  it("[O91] a run at one scheduler can be skipped, rebound and cancelled at the other, and both give the same reason why a node waits", async () => {
    const { east, west, atEast, atWest } = await startPair({ flags: ["--heartbeat", "500", "--lease", "5000"] });
    await startWorker(west.ws, { name: "western", slots: 1 });
    const post = async (api: SchedulerApi, path: string, body: unknown = {}) => {
      const response = await api.send("POST", `/api/v1/${path}`, body);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    const running = (ref: RunRef, worker: string) =>
      pollUntil(`${worker} to run it`, async () =>
        (await atEast.getRun(ref.runId)).nodes?.some((node) => node.status === "running" && node.workerName === worker),
      );

    const skipped = await atEast.startRun(sleepingWorkflow(600_000), "skip");
    await running(skipped, "western");
    const [node] = (await atEast.getRun(skipped.runId)).nodes ?? [];
    expect((await post(atEast, `runs/${skipped.runId}/nodes/${node?.nodeId}/skip`)).status).toBe(202);
    expect((await atWest.waitForRunEnd(skipped.runId)).status).toBe("succeeded");

    const moved = await atWest.startRun(sleepingWorkflow(600_000), "rebind");
    await running(moved, "western");
    await startWorker(east.ws, { name: "eastern", slots: 1 });
    const rebound = await post(atEast, `scheduler/runs/${moved.runId}/rebind`, { worker: "eastern", mode: "switch" });
    expect(rebound.status).toBe(202);
    await running(moved, "eastern");

    // Both slots are taken; the third waits, and both give the reason.
    const busy = await atEast.startRun(sleepingWorkflow(600_000), "busy");
    await running(busy, "western");
    const waiting = await atEast.startRun(sleepingWorkflow(600_000), "waiting");
    const [stuck] = (await atEast.getRun(waiting.runId)).nodes ?? [];
    const path = `/api/v1/runs/${waiting.runId}/nodes/${stuck?.nodeId}/placement`;
    const why = await pollUntil("both to say the same", async () => {
      const [here, there] = await Promise.all([atEast, atWest].map((api) => api.get<{ workers: unknown }>(path)));
      return JSON.stringify(here?.workers) === JSON.stringify(there?.workers) ? JSON.stringify(here) : null;
    });
    expect(why).toContain("western");
    expect(why).toContain("eastern");

    for (const ref of [moved, busy, waiting]) expect((await post(atWest, `runs/${ref.runId}/cancel`)).status).toBe(202);
    for (const ref of [moved, busy, waiting]) expect((await atEast.waitForRunEnd(ref.runId)).status).toBe("cancelled");
  });

  it("[O92] a bulk change of many runs is finished by the other scheduler when the first is killed in the middle of it", async () => {
    const { east, atEast, atWest } = await startPair();
    const refs: RunRef[] = [];
    const begin = async () => {
      for (const from = refs.length; refs.length < from + 400; )
        refs.push(
          ...(await Promise.all(
            Array.from({ length: 40 }, (_, n) => atEast.startRun(sleepingWorkflow(1), `k-${refs.length + n}`)),
          )),
        );
      const begun = await atEast.send("POST", "/api/v1/runs/bulk", {
        action: "cancel",
        filter: { status: ["queued", "running"] },
      });
      const { bulkId } = (await begun.json()) as Bulk;
      return () => atWest.get<Bulk>(`/api/v1/bulk/${bulkId}`);
    };

    // On a loaded machine the change may be over before this process has looked: then it is stopped in the middle of the next one.
    const shown = await pollUntil("a change to be in the middle", async () => {
      const look = await begin();
      await pollUntil("some of it to be done", async () => (await look()).matched > 0);
      east.process.kill("SIGSTOP");
      if ((await look()).status === "running") return look;
      east.process.kill("SIGCONT");
      return null;
    });
    east.process.kill("SIGKILL");
    await east.process.ended;
    const left = await shown();
    await pollUntil("the other to take it over", async () => (await shown()).updatedAt !== left.updatedAt);
    const done = await pollUntil("the end of it", async () => {
      const bulk = await shown();
      return bulk.status === "done" ? bulk : null;
    });

    expect(left.status).toBe("running");
    // What the first did of the page it had in hand, and did not get to note, no longer matches: it is done and not counted.
    expect(done.changed + done.unchanged).toBeGreaterThan(350);
    expect(done.refused).toBe(0);
    const runs = await pollUntil("all to be cancelled", async () => {
      const all = await atWest.listRuns();
      return all.every(({ status }) => status === "cancelled") ? all : null;
    });
    expect(runs).toHaveLength(refs.length);
  });

  it("[O93] two schedulers share users, sessions and workflows: a user created at one signs in at the other and is signed out at both", async () => {
    const { east, west, atEast } = await startPair();
    const password = "correct horse battery";
    const made = await atEast.send("POST", "/api/v1/users", { username: "ada", password, roles: ["admin"] });
    expect(made.status).toBeLessThan(300);
    const signed = await new SchedulerApi(west.http, "none").send("POST", "/api/v1/auth/login", { username: "ada", password });
    expect(signed.status).toBe(200);
    const { accessToken } = (await signed.json()) as { accessToken: string };
    const [there, here] = [new SchedulerApi(east.http, accessToken), new SchedulerApi(west.http, accessToken)];
    for (const api of [there, here]) expect(await api.get("/api/v1/users/me")).toMatchObject({ username: "ada" });

    const kept = await there.send("POST", "/api/v1/workflows", example("map"));
    expect(kept.status).toBeLessThan(300);
    const { id } = example("map");
    const [one, two] = await Promise.all([there, here].map((api) => api.get<{ revision?: number }>(`/api/v1/workflows/${id}`)));
    expect(one).toEqual(two);

    expect((await there.send("POST", "/api/v1/auth/logout")).status).toBe(204);
    await pollUntil("the other to have heard of it", async () => (await here.send("GET", "/api/v1/users/me")).status === 401);
  });
});
