// An executor with one handler and nothing real around it but a folder: what it says is written down, its timers wait to be called.

import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { DispatchPayload } from "@astraflow/protocol";
import { afterEach } from "vitest";
import { type Attempt, makeAttempt } from "../src/attempt.ts";
import { Executor } from "../src/executor.ts";
import { ExtHub } from "../src/ext.ts";
import type { FeedbackInput } from "../src/feedback.ts";
import { type Handler, HandlerRegistry } from "../src/handler.ts";
import type { Outcome } from "../src/outcome.ts";
import { resourceDefaults } from "../src/resource.ts";
import { ResourceFolder } from "../src/resource-folder.ts";
import { ResourceRegistry } from "../src/resources.ts";

const roots: string[] = [];
afterEach(async () => {
  for (const root of roots.splice(0)) await rm(root, { recursive: true, force: true });
});

const registryIn = (dir: string, log: string[]) =>
  new ResourceRegistry(
    { wall: () => 0, after: () => () => {}, report: () => {}, removed: (id, reason) => log.push(`${id} ${reason}`) },
    new ResourceFolder(path.join(dir, "kept"), dir),
    { ...resourceDefaults, workerName: "w" },
  );

export function bench(handler: Handler, part: Partial<DispatchPayload> = {}) {
  const workRoot = mkdtempSync(path.join(tmpdir(), "executor-"));
  roots.push(workRoot);
  const handlers = new HandlerRegistry();
  handlers.add({ packageName: "demo", packageVersion: "1.0.0", nodeType: "demo.x" }, { handler, config: { strict: true } });
  const usual = {
    run_id: "r",
    task_id: "r.1",
    node_id: "n",
    node_type: "demo.x",
    package_name: "demo",
    package_version: "1.0.0",
  };
  const attempt = makeAttempt({ ...usual, parameters: { a: 1 }, constraints: {}, ...part }, 5, 0);
  const log: string[] = [];
  const outcomes: Outcome[] = [];
  const said: FeedbackInput[] = [];
  const timers: { ms: number; call: () => void; isCancelled: boolean }[] = [];
  let now = 0;
  let signalSettled = () => {};
  const settled = new Promise<void>((resolve) => {
    signalSettled = resolve;
  });
  const resources = registryIn(workRoot, log);
  const executor = new Executor(
    {
      now: () => now,
      after(ms, call) {
        const timer = { ms, call, isCancelled: false };
        timers.push(timer);
        return () => {
          timer.isCancelled = true;
        };
      },
      finished(_: Attempt, outcome) {
        log.push("finished");
        outcomes.push(outcome);
      },
      settled() {
        log.push("settled");
        signalSettled();
      },
      feedback: (_, input) => said.push(input),
      next: () => () => {},
      report: ({ message }) => log.push(message),
    },
    { tenant: "acme", handlers, ext: new ExtHub().face, resources, workRoot },
  );
  const pass = (ms: number) => {
    now += ms;
  };
  return { executor, attempt, log, outcomes, said, timers, settled, workRoot, pass, resources };
}
