import { EngineClient } from "@astraflow/services";
import { createFakeEnvironment } from "@astraflow/services/testing";
import { expect, it } from "vitest";
import { logWorkerEvents } from "./engine-effects.ts";

it("[D50] a worker event is logged with its tenant and worker id, at warn for a problem and at info for a recovery", () => {
  const environment = createFakeEnvironment();
  const engineClient = new EngineClient(() => undefined, { report: () => undefined });
  const news = { type: "worker", tenant: "acme", worker: "acme/w/1", event: "worker.liveness" } as const;
  const stop = logWorkerEvents(engineClient, environment);

  engineClient.handleEffects([{ ...news, isRecovery: false, data: { from: "fresh", to: "warn" } }]);
  engineClient.handleEffects([{ ...news, isRecovery: true, data: { from: "warn", to: "fresh" } }]);
  stop();
  engineClient.handleEffects([{ ...news, isRecovery: false, data: {} }]);

  expect(environment.logRecords).toEqual([
    { level: "warn", event: "worker.liveness", tenant: "acme", sender: { id: "w/1" }, from: "fresh", to: "warn" },
    { level: "info", event: "worker.liveness", tenant: "acme", sender: { id: "w/1" }, from: "warn", to: "fresh" },
  ]);
});
