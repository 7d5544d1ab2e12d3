import { describe, expect, it } from "vitest";
import sample from "../../../fixtures/workflow.sample.json" with { type: "json" };
import { fault } from "../../faults/fault.ts";
import { createSchemaReader } from "../../schema/schema-reader.ts";
import { ErrorSchema, type Run, RunSchema, readRunStartRequest } from "./run-bodies.ts";
import { readWorkerCommand } from "./worker-enrolment-bodies.ts";

describe("bodies", () => {
  const start = { workflow: sample, clientId: "c-1", priority: 0, timeoutMs: 1_000 };

  it("[C15] a run start request is read with its workflow", () => {
    expect(readRunStartRequest(start)).toEqual(start);
  });

  it.each([
    [{ dryrun: true }, "body.dryrun is not a known field; did you mean dryRun?"],
    [{ timeoutMS: 5 }, "body.timeoutMS is not a known field; did you mean timeoutMs?"],
    [{ tenant: "other" }, "body.tenant is not a known field"],
  ])(
    "[C15] a run start request with a misspelt or unknown field is refused with the nearest name (case %#)",
    (field, message) => {
      expect(readRunStartRequest({ ...start, ...field })).toMatchObject({ code: "E.REQUEST.INVALID", message });
    },
  );

  it("[C910] a body that misspells a field which it must have is refused with both names", () => {
    expect(readWorkerCommand({ tpye: "drain" })).toMatchObject({
      code: "E.REQUEST.INVALID",
      message: "body must have type; it has tpye, did you mean type?",
      details: { path: "body", expected: "must have type" },
    });
  });

  it.each([
    [{ ...start, clientId: "" }, "E.REQUEST.INVALID"],
    [{ ...start, priority: 10 }, "E.REQUEST.INVALID"],
    [{ ...start, timeoutMs: 0 }, "E.REQUEST.INVALID"],
    [{ ...start, workflow: undefined }, "E.REQUEST.INVALID"],
    [{ ...start, workflow: { ...sample, nodes: [] } }, "E.WORKFLOW.INVALID"],
    [[], "E.REQUEST.INVALID"],
  ])(
    "[C15] the fault code of an invalid run start request shows whether the request or the workflow is wrong (case %#)",
    (body, code) => {
      expect(readRunStartRequest(body)).toMatchObject({ code });
    },
  );

  it("[C15] a run body shows dispatches that wait for their ack, and skipped nodes", () => {
    const run: Run = {
      runId: "r-1",
      status: "running",
      definitionHash: "abc",
      clientId: "c-1",
      nodes: [
        {
          nodeId: "n-1",
          taskId: "t-1",
          status: "running",
          pendingAck: true,
          dispatchId: "d-1",
          ackDeadline: "2026-01-05T09:00:05Z",
          workerName: "w1",
          attempt: 1,
          fence: 7,
        },
        { nodeId: "n-2", taskId: "t-2", status: "skipped" },
      ],
    };
    const reader = createSchemaReader(RunSchema, { code: "E.INTERNAL", subject: "run", unknownKeys: "refuse" });

    expect(reader.read(run)).toEqual(run);
    expect(reader.read({ ...run, status: "skipped" })).toMatchObject({ details: { path: "run.status" } });
  });

  it("[C15] an error body is what a fault is serialized to", () => {
    const reader = createSchemaReader(ErrorSchema, { code: "E.INTERNAL", subject: "error", unknownKeys: "refuse" });
    const body = { ...fault("E.NOT_FOUND", "no run r-1", { runId: "r-1" }).toJSON(), requestId: "q-1" };

    expect(reader.read(body)).toEqual(body);
    expect(reader.read({ ...body, error: "not_found" })).toMatchObject({ details: { path: "error.error" } });
  });
});
