// Floods: bodies that are costly to check, many small ones at once, answers that nobody reads, frames that never end.

import { connect, type Socket } from "node:net";
import { burstWorkflows, costlyWorkflows, largeWorkflows } from "../../test/system/harness/costly-bodies.ts";
import { countStatuses, sendBurst } from "../harness/burst.ts";
import { readResidentMemory, resetPeak } from "../memory/memory-load.ts";
import {
  type Attack,
  type AttackTarget,
  countAnswers,
  demoWorkflow,
  judge,
  request,
  runOrdinaryWork,
  startRun,
} from "./attack.ts";
import { watchLoop } from "./loop-watch.ts";
import { WorkerSocket } from "./worker-socket.ts";

const heldProblem = "the thread that everybody waits for was held";

const costlyBodies: Attack = {
  name: "500,000 keys, an enum of 100,000 objects and 10,000 nodes with a problem each, sent with the grant read",
  isQuick: true,
  async send(target) {
    const bodies = [
      costlyWorkflows.manyKeys(),
      costlyWorkflows.largeEnum(),
      costlyWorkflows.unknownPackages(),
      costlyWorkflows.unknownFields(),
      largeWorkflows.chain(),
    ].map((one) => JSON.stringify(one));
    const { result, seen, isHeld } = await watchLoop(target, () =>
      Promise.all(bodies.map((body) => request(target, "/api/v1/workflows/validate", { token: target.tokens.read, body }))),
    );
    return judge(`${countAnswers(result)}; ${seen}`, {
      [heldProblem]: isHeld,
      "a check was not answered": result.some(({ status }) => status >= 500 && status !== 503),
    });
  },
};

const bursts: readonly Attack[] = [
  { count: 200, isQuick: true },
  { count: 1_000, isQuick: false },
].map(({ count, isQuick }) => ({
  name: `${count} workflows of 50 KB to be checked, at the same moment`,
  isQuick,
  async send(target) {
    const body = JSON.stringify(burstWorkflows.nodes());
    const burst = { method: "POST", path: "/api/v1/workflows/validate", token: target.tokens.read, body };
    const { result, seen, isHeld } = await watchLoop(target, () => sendBurst(target.http, count, burst));
    const isDone = await runOrdinaryWork(target);
    return judge(`${countStatuses(result)}; ${seen}`, {
      [heldProblem]: isHeld,
      "a connection ended without an answer": result.has(0),
      "a request was answered with something else than 200 or 503": [...result.keys()].some(
        (one) => ![0, 200, 503].includes(one),
      ),
      "ordinary work did not go through": !isDone,
    });
  },
}));

/** What a scheduler may take for answers that wait: their total, and the rest of what reading them takes. */
const answersGrowthMbMax = 700;

/** Connections that send something and read nothing. */
async function openSilent({ http }: AttackTarget, count: number, text: string): Promise<Socket[]> {
  const { hostname, port } = new URL(http);
  return Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<Socket>((resolve, reject) => {
          const socket = connect({ host: hostname, port: Number(port) }, () => {
            socket.off("error", reject);
            // The scheduler may cut it off: that is what is looked for.
            socket.on("error", () => socket.destroy());
            socket.pause().write(text);
            resolve(socket);
          });
          socket.once("error", reject);
        }),
    ),
  );
}

/** How many answers and connections were cut off so far. */
async function readCuts(target: AttackTarget): Promise<number> {
  const { text } = await request(target, "/metrics", { token: target.tokens.metrics });
  const rows = [...text.matchAll(/^http_(?:answers|pipelines)_cut_total(?:\{[^}]*\})? (\d+)$/gm)];
  return rows.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Waits until there are more than before, a minute at most; gives how many more. */
async function waitForCuts(target: AttackTarget, before: number): Promise<number> {
  const until = performance.now() + 60_000;
  for (;;) {
    const cuts = (await readCuts(target)) - before;
    if (cuts > 0 || performance.now() > until) return cuts;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

const unreadAnswers: readonly Attack[] = [
  { name: "400 reads of a run of 7 MB, sent at once on one connection that reads nothing", connections: 1, each: 400 },
  { name: "90 reads of a run of 7 MB, sent at once on one connection that reads nothing", connections: 1, each: 90 },
  { name: "100 connections that read nothing of a run of 7 MB", connections: 100, each: 1 },
].map(({ name, connections, each }) => ({
  name,
  isQuick: false,
  async send(target) {
    const runId = await startRun(target, demoWorkflow("demo.text", { text: "x".repeat(7_000_000) }));
    const cutsBefore = await readCuts(target);
    const before = readResidentMemory(target.pid).nowMb;
    resetPeak(target.pid);
    const head = `GET /api/v1/runs/${runId}/definition HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${target.tokens.operate}\r\n\r\n`;
    const sockets = await openSilent(target, connections, head.repeat(each));
    const cuts = await waitForCuts(target, cutsBefore);
    const isDone = await runOrdinaryWork(target);
    for (const socket of sockets) socket.destroy();
    const { peakMb } = readResidentMemory(target.pid);
    return judge(`${before.toFixed(0)} MiB before, peak ${peakMb.toFixed(0)} MiB; ${cuts} cut off`, {
      "memory grew with what nobody reads": peakMb - before > answersGrowthMbMax,
      "none of them was cut off": cuts === 0,
      "ordinary work did not go through": !isDone,
    });
  },
}));

const unfinishedFrames: Attack = {
  name: "60 workers that send 7 MiB of a frame in parts, and never its end",
  isQuick: false,
  async send(target) {
    const before = readResidentMemory(target.pid).nowMb;
    resetPeak(target.pid);
    const workers: WorkerSocket[] = [];
    for (let at = 0; at < 60; at += 1) {
      const worker = await WorkerSocket.open(target.ws);
      if ((await worker.join(target.tokens.worker)) !== null) workers.push(worker);
    }
    for (const worker of workers) await worker.sendParts(7, 1024 * 1024);
    const isDone = await runOrdinaryWork(target);
    const resets = await Promise.all(workers.map((worker) => worker.receivedWithin("control.reset", 3_000)));
    const { peakMb } = readResidentMemory(target.pid);
    for (const worker of workers) worker.end();
    const codes = resets.flatMap((one) => (one === null ? [] : [String(one.payload["code"])]));
    const overloaded = codes.filter((code) => code === "E.OVERLOADED").length;
    const memory = `${before.toFixed(0)} MiB before, peak ${peakMb.toFixed(0)} MiB`;
    return judge(`${memory}; ${workers.length} joined, ${codes.length} reset, ${overloaded} of them with E.OVERLOADED`, {
      "memory grew with what never ends": peakMb - before > answersGrowthMbMax,
      "none of them was reset as overloaded": overloaded === 0,
      "ordinary work did not go through": !isDone,
    });
  },
};

export const floodAttacks: readonly Attack[] = [costlyBodies, ...bursts, ...unreadAnswers, unfinishedFrames];
