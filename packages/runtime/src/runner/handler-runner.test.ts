import type { DispatchPayload } from "@astraflow/protocol";
import type { NodeHandler } from "@astraflow/sdk";
import { expect, it } from "vitest";
import { createAttempt } from "../attempts/attempt.ts";
import { HandlerRegistry } from "../handlers/handler.ts";
import { VendorFrameHub } from "../handlers/vendor-frames.ts";
import { resourceDefaults } from "../resources/resource.ts";
import { createInProcessRunner } from "./handler-runner.ts";

function run(handler: NodeHandler, ext?: VendorFrameHub) {
  const handlers = new HandlerRegistry();
  handlers.add({ packageName: "p", packageVersion: "1.0.0", nodeType: "p.x" }, { handler, config: {} });
  const log: string[] = [];
  const runner = createInProcessRunner(
    {
      attemptFinished: (_, outcome) => log.push(`finished ${outcome.type}`),
      handlerReturned: () => log.push("settled"),
      feedbackReceived: (_, { stage }) => log.push(`feedback ${stage}`),
      nextCalled: () => () => {},
      vendorFrameSent: ({ type }) => log.push(`ext ${type}`) > 0,
      resourceRemoved: (resource, reason) => log.push(`removed ${resource} ${reason}`),
      problemReported: ({ message }) => log.push(message),
      healthChanged: () => {},
    },
    {
      tenant: "acme",
      loadedPackages: { packages: [], problems: [], handlers, ...(ext && { vendorFrames: ext }) },
      workRoot: "/nowhere",
      resources: { ...resourceDefaults, workerName: "w" },
      resourceDir: "/nowhere/kept",
      environment: { now: () => 0, wallClock: () => 0, after: () => () => {} },
      watchdog: {
        watchGroup: () => log.push("group looked at"),
        unwatchGroup: () => log.push("group forgotten"),
        close: () => log.push("watch closed"),
      },
    },
  );
  const names = { run_id: "r", task_id: "t", node_id: "n", node_type: "p.x", package_name: "p", package_version: "1.0.0" };
  runner.start(createAttempt({ ...names, parameters: {}, constraints: {} } as DispatchPayload, 1, 0));
  return { runner, log };
}

it("[W121] the in-process runner reports feedback that cannot be written, and sends the rest", () => {
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

it("[W126] the in-process runner lets handlers send vendor frames and delivers vendor frames to packages", async () => {
  const hub = new VendorFrameHub();
  const received: string[] = [];
  hub.handlerApi.on("ext.vendor.a", ({ id }) => void received.push(id));
  const { runner, log } = run(async ({ ext }) => ({ isTaken: await ext.send("ext.vendor.b", {}) }), hub);
  const frame = { id: "f", corr: undefined, payload: {} };

  expect(runner.deliverVendorFrame({ ...frame, type: "ext.vendor.a" })).toBe(true);
  expect(runner.deliverVendorFrame({ ...frame, type: "ext.vendor.c" })).toBe(false);

  expect(received).toEqual(["f"]);
  expect(log).toContain("ext ext.vendor.b");
});

it("[W185] the in-process runner reports the start and end of process groups to the watchdog", async () => {
  const { runner, log } = run((context) => {
    context.spawn("sleep", ["600"], { stdio: "ignore" });
    return {};
  });

  await runner.close();

  expect(log).toEqual(["group looked at", "finished written", "group forgotten", "settled", "watch closed"]);
});
