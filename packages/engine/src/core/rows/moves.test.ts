// A generic walk over every table: each phase x event either makes a move that the table names, or is refused with a code.
import { Fault } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import type { TaskRow, TaskRowPhase } from "../../storage/rows.ts";
import { sampleRun, sampleTask, sampleWorker } from "../../testing/sample-rows.ts";
import { isRunLive, type RunTransition, runMoves, stepRun } from "./run.ts";
import {
  attemptMoves,
  attemptPhase,
  isEnded,
  nextFence,
  stepTask,
  type TaskAttemptPhase,
  type TaskTransition,
  taskMoves,
} from "./task.ts";
import { livenessAfter, livenessMoves, stepWorker, type WorkerTransition, workerMoves } from "./worker.ts";

/** Every phase x event: which of them did not do what the table contains, and with which codes the others were refused. */
function walk<P extends string, E extends { readonly type: string }>(
  table: Record<P, Partial<Record<string, readonly string[]>>>,
  events: readonly E[],
  step: (phase: P, event: E) => { readonly phase: string } | Fault,
): { wrong: string[]; refusals: Set<string> } {
  const wrong: string[] = [];
  const refusals = new Set<string>();
  for (const phase of Object.keys(table) as P[])
    for (const event of events) {
      const moved = step(phase, event);
      const named = table[phase][event.type];
      if (moved instanceof Fault) refusals.add(moved.code);
      const isRight = moved instanceof Fault ? named === undefined : named?.includes(moved.phase) === true;
      if (!isRight) wrong.push(`${phase} + ${event.type} -> ${moved instanceof Fault ? moved.code : moved.phase}`);
    }
  return { wrong, refusals };
}

const inPhase = (phase: TaskRowPhase): TaskRow => sampleTask("r.0", { phase, needs: 1, fence: 7 });
const task = sampleTask("r.0", { phase: "leased", fence: 7 });

const taskEvents: { [T in TaskTransition["type"]]: Extract<TaskTransition, { type: T }>[] } = {
  arrive: [{ type: "arrive" }],
  host: [{ type: "host", params: "{}" }],
  ready: [{ type: "ready", line: "r|x", due: null, params: "{}" }],
  repin: [
    { type: "repin", pin: "t/w", queue: { line: "r|x|t/w", due: 9 } },
    { type: "repin", pin: null, queue: null },
  ],
  park: [{ type: "park", line: "k|t/k", due: null, params: "{}" }],
  grant: [{ type: "grant", worker: "t/w", boot: "b", epoch: 1, due: null }],
  ack: [{ type: "ack", due: null }],
  rebind: [
    { type: "rebind", boot: "b2", epoch: 2, acked: true, due: null },
    { type: "rebind", boot: "b2", epoch: 2, acked: false, due: null },
  ],
  requeue: [{ type: "requeue", line: "r|x", due: null }],
  defer: [{ type: "defer", due: 50 }],
  retry: [
    { type: "retry", line: null, due: 5, key: null },
    { type: "retry", line: "r|x", due: null, key: null },
  ],
  succeed: [{ type: "succeed", result: "{}" }] as never,
  skip: [{ type: "skip", result: "{}" }] as never,
  fail: [{ type: "fail", error: "{}", result: null }],
  cancel: [{ type: "cancel", error: null }],
};

describe("the table of task moves", () => {
  it("[M1] a task makes exactly the moves that its table names, in every phase", () => {
    const events = Object.values(taskEvents).flat() as TaskTransition[];

    const walked = walk(taskMoves, events, (phase, event) => stepTask(inPhase(phase), event, 100));

    expect(walked.wrong).toEqual([]);
    expect(walked.refusals).toEqual(new Set(["E.TASK.MOVE_REFUSED"]));
  });

  it("[M1] a task's moves reach every phase that its table names", () => {
    for (const [phase, moves] of Object.entries(taskMoves) as [TaskRow["phase"], Record<string, readonly string[]>][])
      for (const [type, targets] of Object.entries(moves)) {
        const reached = new Set(
          (taskEvents[type as TaskTransition["type"]] as TaskTransition[]).map(
            (event) => (stepTask(inPhase(phase), event, 100) as TaskRow).phase,
          ),
        );
        expect([phase, type, [...reached].sort()]).toEqual([phase, type, [...targets].sort()]);
      }
  });

  it("[M2] a task that has ended makes no further move", () => {
    for (const phase of ["succeeded", "failed", "cancelled", "skipped"] as const) {
      expect(isEnded(inPhase(phase))).toBe(true);
      expect(taskMoves[phase]).toEqual({});
    }
  });

  it("[M3] a task's fence rises whenever its holder changes, and only then", () => {
    const fenceAfter = (phase: TaskRow["phase"], event: TaskTransition) => (stepTask(inPhase(phase), event, 3) as TaskRow).fence;

    expect(fenceAfter("ready", taskEvents.grant[0] as TaskTransition)).toBe(8);
    expect(fenceAfter("leased", taskEvents.requeue[0] as TaskTransition)).toBe(8);
    expect(fenceAfter("leased", taskEvents.retry[0] as TaskTransition)).toBe(8);
    expect(fenceAfter("leased", { type: "defer", due: 50 })).toBe(8);
    expect(fenceAfter("leased", { type: "ack", due: null })).toBe(7);
    expect(fenceAfter("leased", { type: "rebind", boot: "b1", epoch: 9, acked: true, due: null })).toBe(7);
    expect(nextFence(7, 1_000)).toBe(1_000);
  });

  it("[M4] a task's delivery count rises with each grant, stays on a requeue, falls when its worker refused it and is reset only by a retry", () => {
    const granted = stepTask(
      sampleTask("r.0", { phase: "ready", deliveries: 3 }),
      taskEvents.grant[0] as TaskTransition,
      9,
    ) as TaskRow;
    const back = stepTask(granted, taskEvents.requeue[0] as TaskTransition, 9) as TaskRow;
    const retried = stepTask(granted, taskEvents.retry[0] as TaskTransition, 9) as TaskRow;

    const deferred = stepTask(granted, { type: "defer", due: 50 }, 9) as TaskRow;

    expect([granted.deliveries, back.deliveries, deferred.deliveries, retried.deliveries]).toEqual([4, 4, 3, 0]);
  });

  it("[M4] no move but a grant, a refusal by the worker and a retry changes a task's delivery count, whichever phase it starts from", () => {
    const countAfter = (phase: TaskRow["phase"], event: TaskTransition): number | null => {
      const moved = stepTask({ ...inPhase(phase), deliveries: 3 }, event, 100);
      return moved instanceof Fault ? null : moved.deliveries;
    };
    const changed = (Object.keys(taskMoves) as TaskRow["phase"][]).flatMap((phase) =>
      Object.values(taskEvents)
        .flat()
        .filter((event) => ![null, 3].includes(countAfter(phase, event)))
        .map((event) => `${phase} + ${event.type}`),
    );

    expect(new Set(changed)).toEqual(new Set(["ready + grant", "leased + defer", "leased + retry"]));
  });

  it("[M5] an attempt is granted, acked, ended or revoked, and makes exactly the moves of its own table", () => {
    const rows: Record<TaskAttemptPhase, TaskRow> = {
      granted: task,
      acked: { ...task, acked: true },
      ended: sampleTask("r.0", { phase: "succeeded" }),
      revoked: sampleTask("r.0", { phase: "succeeded", worker: null }),
    };
    const events = Object.values(taskEvents).flat() as TaskTransition[];

    const walked = walk(attemptMoves, events, (phase, event) => {
      const moved = stepTask(rows[phase], event, 100);
      return moved instanceof Fault ? moved : { phase: attemptPhase(moved) };
    });

    expect(Object.entries(rows).map(([, row]) => attemptPhase(row))).toEqual(Object.keys(rows));
    expect(walked.wrong).toEqual([]);
    expect(stepTask(rows.acked, { type: "ack", due: null }, 100)).toBeInstanceOf(Fault);
  });
});

const runEvents: RunTransition[] = [
  { type: "start" },
  { type: "open", tasks: 1 },
  { type: "succeed" },
  { type: "condemn", verdict: "cancelled", error: null },
  { type: "sweep", cursor: "r.1", ended: 1 },
  { type: "close" },
];

describe("the table of run moves", () => {
  it("[M6] a run makes exactly the moves that its table names, in every phase, and none once it has ended", () => {
    const walked = walk(runMoves, runEvents, (phase, event) => stepRun(sampleRun("r", { phase, open: 2 }), event, 100));

    expect(walked.wrong).toEqual([]);
    expect(walked.refusals).toEqual(new Set(["E.RUN.TERMINAL"]));
    for (const phase of ["succeeded", "failed", "cancelled"] as const) {
      expect(isRunLive(sampleRun("r", { phase }))).toBe(false);
      expect(runMoves[phase]).toEqual({});
    }
  });

  it("[M6] a run closes with the phase of its verdict", () => {
    for (const verdict of ["failed", "cancelled"] as const)
      expect(stepRun(sampleRun("r", { phase: "ending", verdict }), { type: "close" }, 9)).toMatchObject({
        phase: verdict,
        open: 0,
        due: null,
        endedAt: 9,
      });
  });
});

const worker = sampleWorker("t/w", { epoch: 3, due: 50 });

const workerEvents: WorkerTransition[] = [
  { type: "join", name: "w", boot: "b2", replica: "r2", replicaEpoch: 1, about: "{}", condition: "{}", leaseMs: 30 },
  { type: "beat", leaseMs: 30, condition: "{}" },
  { type: "note", condition: "{}" },
  { type: "describe", about: "{}" },
  { type: "enrol", name: "w" },
  { type: "drain", on: true },
  { type: "leave" },
  { type: "expire", again: null, hasLeft: false },
  { type: "forgive", until: 99 },
];

describe("the tables of boots and liveness", () => {
  it("[M7] a worker makes exactly the moves that its table names, in every phase", () => {
    const walked = walk(workerMoves, workerEvents, (phase, event) => stepWorker(sampleWorker("t/w", { phase }), event, 100));

    expect(walked.wrong).toEqual([]);
    expect(walked.refusals).toEqual(new Set(["E.SESSION.STALE_BINDING"]));
  });

  it("[M7] a worker's epoch rises with every join, and its lease is renewed with every heartbeat", () => {
    expect(stepWorker(worker, workerEvents[0] as WorkerTransition, 100)).toMatchObject({ epoch: 4, due: 130, phase: "online" });
    expect(stepWorker(worker, { type: "beat", leaseMs: 30, condition: "{}" }, 100)).toMatchObject({
      epoch: 3,
      due: 130,
      seenAt: 100,
    });
  });

  it("[M8] a session's liveness follows the whole periods missed: 1 warn, 2 degraded, 3 unhealthy, each one step of its table", () => {
    const seen = [0, 9_999, 10_000, 19_999, 20_000, 30_000, 300_000].map((ms) => livenessAfter(ms, 10_000));

    expect(seen).toEqual(["fresh", "fresh", "warn", "warn", "degraded", "unhealthy", "unhealthy"]);
    for (const [from, to] of [
      ["fresh", "warn"],
      ["warn", "degraded"],
      ["degraded", "unhealthy"],
    ] as const)
      expect((livenessMoves[from] as { miss?: readonly string[] }).miss).toEqual([to]);
  });
});
