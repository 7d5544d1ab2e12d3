import type { DispatchPayload } from "@astraflow/protocol";
import { expect, it } from "vitest";
import { makeAttempt } from "./attempt.ts";
import { ExtHub } from "./ext.ts";
import { type Handler, HandlerRegistry } from "./handler.ts";
import { resourceDefaults } from "./resource.ts";
import { createLocalRunner } from "./runner.ts";

function run(handler: Handler, ext?: ExtHub) {
  const handlers = new HandlerRegistry();
  handlers.add({ packageName: "p", packageVersion: "1.0.0", nodeType: "p.x" }, { handler, config: {} });
  const log: string[] = [];
  const runner = createLocalRunner(
    {
      finished: (_, outcome) => log.push(`finished ${outcome.type}`),
      settled: () => log.push("settled"),
      feedback: (_, { stage }) => log.push(`feedback ${stage}`),
      next: () => () => {},
      ext: ({ type }) => log.push(`ext ${type}`) > 0,
      removed: (resource, reason) => log.push(`removed ${resource} ${reason}`),
      report: ({ message }) => log.push(message),
      changed: () => {},
    },
    {
      tenant: "acme",
      shelf: { packages: [], problems: [], handlers, ...(ext && { ext }) },
      workRoot: "/nowhere",
      resources: { ...resourceDefaults, workerName: "w" },
      resourceDir: "/nowhere/kept",
      outside: { now: () => 0, wall: () => 0, after: () => () => {} },
      watch: {
        look: () => log.push("group looked at"),
        forget: () => log.push("group forgotten"),
        close: () => log.push("watch closed"),
      },
    },
  );
  const names = { run_id: "r", task_id: "t", node_id: "n", node_type: "p.x", package_name: "p", package_version: "1.0.0" };
  runner.start(makeAttempt({ ...names, parameters: {}, constraints: {} } as DispatchPayload, 1, 0));
  return { runner, log };
}

it("[W121] beside the link too, feedback that cannot be written is reported, and the rest is said", () => {
  const { log } = run(({ feedback }) => {
    feedback.send({ stage: "one" });
    feedback.send({ stage: "two", metadata: { big: 1n as unknown as number } });
    return {};
  });

  expect(log).toEqual([
    "feedback one",
    "feedback of task t cannot be written as JSON and was dropped",
    "finished written",
    "settled",
  ]);
});

it("[W126] beside the link too, handlers send vendors' frames and packages hear them", async () => {
  const hub = new ExtHub();
  const heard: string[] = [];
  hub.face.on("ext.vendor.a", ({ id }) => void heard.push(id));
  const { runner, log } = run(async ({ ext }) => ({ isTaken: await ext.send("ext.vendor.b", {}) }), hub);
  const frame = { id: "f", corr: undefined, payload: {} };

  expect(runner.hearExt({ ...frame, type: "ext.vendor.a" })).toBe(true);
  expect(runner.hearExt({ ...frame, type: "ext.vendor.c" })).toBe(false);

  expect(heard).toEqual(["f"]);
  expect(log).toContain("ext ext.vendor.b");
});

it("[W185] beside the link too, the watcher hears of the groups that come and go", async () => {
  const { runner, log } = run((context) => {
    context.spawn("sleep", ["600"], { stdio: "ignore" });
    return {};
  });

  await runner.close();

  expect(log).toEqual(["group looked at", "finished written", "group forgotten", "settled", "watch closed"]);
});
