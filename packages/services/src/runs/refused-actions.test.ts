import { fault } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { auditRefusal, runAudit } from "../documents/documents.ts";
import { createFakeDocumentStore } from "../testing/fake-document-store.ts";
import { createFakeEnvironment } from "../testing/fake-environment.ts";
import { runRow } from "../testing/sample-rows.ts";
import { createBulkRunChange } from "./bulk-runs.ts";
import { DeadLetters } from "./dead-letters.ts";
import { RunControl } from "./run-control.ts";
import type { RunStarter } from "./run-starter.ts";

const asker = { identity: { tenant: "default", user: "ann", grants: [] }, requestId: "req-1" };
const words = runAudit("run.retry", "r1", { reason: "again", from: undefined });
const refuse = (code: "E.RUN.ACTIVE" | "E.STORE.BUSY"): never => {
  throw fault(code, "no");
};

describe("orders that a door refuses", () => {
  it("[A260] a refused action is recorded in the audit with its code, and refused all the same; an accepted one is not recorded as refused", async () => {
    const { engineClient, engine } = createFakeDocumentStore();

    expect(await auditRefusal(engineClient, asker, words, () => "taken")).toBe("taken");
    await expect(auditRefusal(engineClient, asker, words, () => refuse("E.RUN.ACTIVE"))).rejects.toMatchObject({
      code: "E.RUN.ACTIVE",
    });

    const audit = { action: "run.retry", targetType: "run", target: "r1", data: { reason: "again" }, outcome: "E.RUN.ACTIVE" };
    expect(engine.commands).toEqual([{ type: "docs.write", tenant: "default", by: "ann", corr: "req-1", puts: [], audit }]);
  });

  it("[A260] a failure of the scheduler itself is not recorded as a refusal", async () => {
    const { engineClient, engine } = createFakeDocumentStore();

    await expect(auditRefusal(engineClient, asker, words, () => refuse("E.STORE.BUSY"))).rejects.toMatchObject({
      code: "E.STORE.BUSY",
    });
    await expect(auditRefusal(engineClient, asker, words, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");

    expect(engine.commands).toEqual([]);
  });

  it("[A260] a refused action fails with the store's fault where its refusal could not be recorded", async () => {
    const { engineClient, engine } = createFakeDocumentStore();
    engine.answerWith("docs.write", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));

    await expect(auditRefusal(engineClient, asker, words, () => refuse("E.RUN.ACTIVE"))).rejects.toMatchObject({
      code: "E.STORE.BUSY",
    });
  });

  it("[A260] a bulk change records the refusal of each run whose action is refused", async () => {
    const { engineClient, reader, engine } = createFakeDocumentStore();
    const run = runRow("r1", { phase: "failed", endedAt: 5 });
    const starter = {
      readRunDetail: async () => ({ run, tasks: [], workflow: JSON.stringify({ nodes: [] }) }),
      readVersionOfRun: async () => null,
      start: () => Promise.reject(fault("E.WORKFLOW.INVALID", "a package is gone")),
    } as unknown as RunStarter;
    const context = { engineClient, reader, environment: createFakeEnvironment(), digest: (text: string) => text };
    const control = new RunControl(context, starter);
    const act = createBulkRunChange(context, { starter, control, deadLetters: new DeadLetters(context, starter, control) });

    const done = act(asker, { action: "retry", filter: {}, reason: "all of them" }, run, "bulk-7:r1");

    await expect(done).rejects.toMatchObject({ code: "E.WORKFLOW.INVALID" });
    expect(engine.commands).toMatchObject([
      {
        type: "docs.write",
        puts: [],
        audit: {
          action: "run.retry",
          target: "r1",
          outcome: "E.WORKFLOW.INVALID",
          data: { reason: "all of them", bulk: "bulk-7" },
        },
      },
    ]);
  });

  it("[A560] a bulk cancel counts a run that has ended since it was read as unchanged, and passes other refusals on", async () => {
    const { engineClient, reader, engine } = createFakeDocumentStore();
    const starter = {} as RunStarter;
    const context = { engineClient, reader, environment: createFakeEnvironment(), digest: (text: string) => text };
    const control = new RunControl(context, starter);
    const act = createBulkRunChange(context, { starter, control, deadLetters: new DeadLetters(context, starter, control) });
    const cancel = () => act(asker, { action: "cancel", filter: {} }, runRow("r1", { phase: "running" }), "bulk-7:r1");

    engine.answerWith("run.cancel", () => ({ fault: { code: "E.RUN.TERMINAL", message: "run r1 is succeeded" } }));
    expect(await cancel()).toEqual({ isChanged: false });

    engine.answerWith("run.cancel", () => ({ fault: { code: "E.STORE.BUSY", message: "busy" } }));
    await expect(cancel()).rejects.toMatchObject({ code: "E.STORE.BUSY" });
  });
});
