import { readFileSync } from "node:fs";
import Schema from "typebox/schema";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import sample from "../../fixtures/workflow.sample.json" with { type: "json" };
import { faultCodes } from "../faults/fault-codes.ts";
import { type Route, routes } from "../rest/routes/route-table.ts";
import { buildOpenapiDocument } from "./openapi-document.ts";

const document = buildOpenapiDocument();
const byName = Object.entries(routes) as [string, Route][];

describe("routes", () => {
  /** What the specification and the field's API name, under /api/v1. */
  const named = [
    "auth/login POST",
    "runs GET POST",
    "runs/{runId} GET",
    "runs/{runId}/cancel POST",
    "runs/{runId}/definition GET",
    "runs/{runId}/events GET",
    "runs/{runId}/logs GET",
    "runs/{runId}/bindings GET",
    "runs/{runId}/nodes/{nodeId}/placement GET",
    "scheduler/runs/{runId}/rebind POST",
    "workflows GET POST",
    "workflows/{workflowId} GET DELETE",
    "workflows/{workflowId}/preview GET PUT",
    "workflows/{workflowId}/publish POST",
    "workflows/{workflowId}/draft PATCH",
    "workflow-packages GET",
    "workflow-packages/{packageId} GET DELETE",
    "workflow-packages/{packageId}/versions GET",
    "workflow-packages/{packageId}/clone POST",
    "packages GET",
    "packages/{packageName} GET",
    "catalog/nodes/search GET",
    "workers GET",
    "workers/{workerId} GET",
    "workers/{workerName}/commands POST",
    "events GET",
    "resources GET POST",
    "resources/{resourceId} GET DELETE",
    "resources/{resourceId}/download GET",
    "resources/uploads POST",
    "resources/uploads/{uploadId} GET DELETE",
    "resources/uploads/{uploadId}/parts/{partNumber} PUT",
    "resources/uploads/{uploadId}/complete POST",
    "resource-grants GET POST",
    "resource-grants/{grantId} GET DELETE",
    "users GET POST",
    "users/me GET PATCH",
    "users/{userId}/password POST",
    "users/{userId}/roles POST",
    "users/{userId}/roles/{role} DELETE",
    "users/{userId}/status PATCH",
    "audit-events GET",
    "audit GET",
    "scaling GET",
    "dead-letters GET",
    "queues GET",
  ];
  it.each(named)("[C13] the route table has %s, as the specification names it", (row) => {
    const [path = "", ...methods] = row.split(" ");
    const there = byName.filter(([, route]) => route.path === `/api/v1/${path}`).map(([, route]) => route.method);
    expect(there).toEqual(expect.arrayContaining(methods));
  });
  it("[C13] the route table has worker enrolment, health probes and metrics outside of /api/v1, and no method and path twice", () => {
    const paths = byName.map(([, route]) => `${route.method} ${route.path}`);
    expect(paths).toEqual(
      expect.arrayContaining([
        "POST /api/workers/register",
        "POST /api/workers/heartbeat",
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
      ]),
    );
    expect(new Set(paths).size).toBe(paths.length);
  });
  it.each(byName)(
    "[C13] %s declares each parameter of its path, and an Idempotency-Key exactly if it is a non-public POST that changes something",
    (_, route) => {
      expect([...route.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1])).toEqual(Object.keys(route.params ?? {}));
      const isChanging = route.method === "POST" && route.isOpen !== true && route.grant !== "read";
      expect("Idempotency-Key" in (route.headers ?? {})).toBe(isChanging);
    },
  );
});

describe("OpenAPI document", () => {
  it("[C14] the OpenAPI document has every route, its answers and its faults by status", () => {
    for (const [name, route] of byName) {
      const operation = document.paths[route.path]?.[route.method.toLowerCase()] as {
        operationId: string;
        responses: Record<string, { description: string }>;
      };
      expect(operation.operationId).toBe(name);
      expect(operation.responses).toHaveProperty(String(route.status));
      for (const code of route.faults) expect(operation.responses[faultCodes[code].http]?.description).toContain(code);
    }
  });

  it("[C620] every operation of the OpenAPI document declares the answers to a request that is too slow or whose head is too large", () => {
    const operations = Object.values(document.paths).flatMap((path) => Object.values(path)) as { responses: object }[];

    expect(operations.length).toBe(byName.length);
    expect(operations.filter(({ responses }) => !("408" in responses && "431" in responses))).toEqual([]);
  });

  it("[C14] the OpenAPI document has no reference to a schema that it does not define", () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1] as string);

    expect(references.length).toBeGreaterThan(50);
    for (const reference of references) {
      expect(reference).toMatch(/^#\/components\/schemas\//);
      expect(document.components.schemas).toHaveProperty([reference.slice("#/components/schemas/".length)]);
    }
  });

  it("[C14] the OpenAPI document has every body of the API under its name", () => {
    const wanted =
      `RunStartRequest RunRef Run RunStatus RunNodeStatus RunArtifact ResultError Error WorkflowNodeState Worker WorkerPackage
      WorkerCommand PackageSummary PackageDetail CatalogNode WorkflowPublishRequest WorkflowPackageSummary WorkflowPackageDetail
      WorkflowPackageVersion Resource ResourceUploadInitRequest ResourceUploadSession ResourceUploadPart ResourceGrant
      ResourceGrantCreateRequest UserSummary AuditEvent Workflow Event WorkerDetail WorkerDiagnostics WorkerKickRequest
      ExtensionRequest ExtensionRef ExtensionFrame Scaling`.split(/\s+/);

    expect(wanted.filter((name) => !(name in document.components.schemas))).toEqual([]);
  });

  it("[C14] the OpenAPI document in the repository is the one that the sources generate", () => {
    const file = new URL("../../../../docs/api/v1/openapi.yaml", import.meta.url);

    expect(parse(readFileSync(file, "utf8"))).toEqual(JSON.parse(JSON.stringify(document)));
  });

  it("[C14] the OpenAPI document describes bodies as the readers check them", () => {
    const bundled = { ...document.components.schemas["RunStartRequest"], components: document.components };

    expect(Schema.Compile(bundled).Check({ workflow: sample, clientId: "c" })).toBe(true);
    expect(Schema.Compile(bundled).Check({ workflow: { ...sample, id: "x" }, clientId: "c" })).toBe(false);
  });
});
