import type { AttemptOutcome, LocalAttempt } from "@astraflow/runtime";
import { expect, it } from "vitest";
import { TaskLog } from "./task-log.ts";

function open() {
  const written: string[] = [];
  const timers: { readonly ms: number; readonly call: () => void }[] = [];
  const log = new TaskLog({
    tenant: "acme",
    worker: "w-1",
    pid: 7,
    wallClock: () => 1_000,
    after(ms, call) {
      const timer = { ms, call };
      timers.push(timer);
      return () => void timers.splice(timers.indexOf(timer), 1);
    },
    write: (text) => void written.push(text),
  });
  return { log, written, timers };
}

const attempt = (task: string, part: Partial<LocalAttempt> = {}): LocalAttempt =>
  ({
    run: "r",
    task,
    phase: "running",
    dispatch: { node_type: "demo.text", package_name: "demo", package_version: "1.0.0" },
    frame: { type: "biz.exec.dispatch", id: "f-1", seq: 4 },
    ...part,
  }) as LocalAttempt;
const done: AttemptOutcome = { type: "result", status: "SUCCEEDED", result: {}, durationMs: 3 };

it("[W910] the line of a task is JSON at level info with tenant, sender.id, type, id, corr, seq and code", () => {
  const { log, written } = open();
  log.add(attempt("t-1"), done, 3.21);
  log.add(attempt('t "2"', { phase: "dropped", frame: null }), { type: "error", code: "E.TIMEOUT", message: "m", where: "w" }, 9);
  log.flush();

  expect(
    written
      .join("")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as object),
  ).toEqual([
    {
      level: 30,
      time: 1_000,
      tenant: "acme",
      sender: { id: "w-1" },
      "sender.id": "w-1",
      pid: 7,
      event: "task",
      type: "biz.exec.dispatch",
      id: "f-1",
      corr: "t-1",
      seq: 4,
      code: "OK",
      run: "r",
      nodeType: "demo.text",
      package: "demo 1.0.0",
      durationMs: 3.2,
      msg: "task succeeded",
    },
    expect.objectContaining({ corr: 't "2"', code: "E.TIMEOUT", msg: "task failed, but is no longer wanted" }),
  ]);
});

it("[W911] lines of tasks are written together: after a moment, when there are many, and before any other line", () => {
  const { log, written, timers } = open();
  for (let index = 0; index < 20; index += 1) log.add(attempt(`t-${index}`), done, 1);
  expect(written).toEqual([]);
  expect(timers).toHaveLength(1);

  timers[0]?.call();
  expect(written.join("").trim().split("\n")).toHaveLength(20);
  expect(timers).toEqual([]);

  for (let index = 0; index < 1_000; index += 1) log.add(attempt(`t-${index}`), done, 1);
  log.flush();
  expect(written.length).toBeLessThan(30);
  expect(written.join("").trim().split("\n")).toHaveLength(1_020);
  expect(timers).toEqual([]);
});
