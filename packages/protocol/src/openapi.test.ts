import { readFileSync } from "node:fs";
import Schema from "typebox/schema";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import sample from "../fixtures/workflow.sample.json" with { type: "json" };
import { faultCodes } from "./fault-codes.ts";
import { openapiDocument } from "./openapi.ts";
import { type Route, routes } from "./routes.ts";

const document = openapiDocument();
const byName = Object.entries(routes) as [string, Route][];

describe("routes", () => {
  it("[C13] are those that exist now", () => {
    expect(byName.map(([, route]) => `${route.method} ${route.path} ${route.status}`)).toEqual([
      "POST /api/v1/runs 202",
      "GET /api/v1/runs 200",
      "GET /api/v1/runs/{runId} 200",
      "GET /api/v1/runs/{runId}/definition 200",
      "POST /api/v1/runs/{runId}/cancel 202",
      "GET /api/v1/runs/{runId}/events 200",
      "GET /api/v1/workers 200",
      "GET /api/v1/workers/{workerId} 200",
      "GET /api/v1/workers/{workerId}/diagnostics 200",
      "POST /api/v1/workers/{workerId}/drain 202",
      "POST /api/v1/workers/{workerId}/undrain 202",
      "POST /api/v1/workers/{workerId}/kick 202",
      "GET /api/v1/scaling 200",
      "GET /api/v1/extensions/{type} 200",
      "POST /api/v1/extensions/{type} 202",
      "GET /api/v1/openapi.json 200",
      "GET /healthz 200",
      "GET /readyz 200",
      "GET /metrics 200",
    ]);
  });

  it.each(byName)("[C13] %s declares each parameter of its path, and a key where it changes something", (_, route) => {
    expect([...route.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1])).toEqual(Object.keys(route.params ?? {}));
    expect("Idempotency-Key" in (route.headers ?? {})).toBe(route.method === "POST");
  });
});

describe("OpenAPI document", () => {
  it("[C14] has every route, its answers and its faults by status", () => {
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

  it("[C14] has no reference that leads nowhere and no name that nobody defines", () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1] as string);

    expect(references.length).toBeGreaterThan(50);
    for (const reference of references) {
      expect(reference).toMatch(/^#\/components\/schemas\//);
      expect(document.components.schemas).toHaveProperty([reference.slice("#/components/schemas/".length)]);
    }
  });

  it("[C14] has every body of the API by its name", () => {
    const wanted =
      `RunStartRequest RunRef Run RunStatus RunNodeStatus RunArtifact ResultError Error WorkflowNodeState Worker WorkerPackage
      WorkerCommand PackageSummary PackageDetail CatalogNode WorkflowPublishRequest WorkflowPackageSummary WorkflowPackageDetail
      WorkflowPackageVersion Resource ResourceUploadInitRequest ResourceUploadSession ResourceUploadPart ResourceGrant
      ResourceGrantCreateRequest UserSummary AuditEvent Workflow Event WorkerDetail WorkerDiagnostics WorkerKickRequest
      ExtensionRequest ExtensionRef ExtensionFrame Scaling`.split(/\s+/);

    expect(wanted.filter((name) => !(name in document.components.schemas))).toEqual([]);
  });

  it("[C14] is in the repository as the sources say", () => {
    const file = new URL("../../../docs/api/v1/openapi.yaml", import.meta.url);

    expect(parse(readFileSync(file, "utf8"))).toEqual(JSON.parse(JSON.stringify(document)));
  });

  it("[C14] describes bodies as the readers check them", () => {
    const bundled = { ...document.components.schemas["RunStartRequest"], components: document.components };

    expect(Schema.Compile(bundled).Check({ workflow: sample, clientId: "c" })).toBe(true);
    expect(Schema.Compile(bundled).Check({ workflow: { ...sample, id: "x" }, clientId: "c" })).toBe(false);
  });
});
