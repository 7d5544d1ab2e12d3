// The OpenAPI 3.1 document, written from the route table. Everything in it comes from the table.

import type { TSchema } from "typebox";
import { ManifestSchema } from "../definitions/manifest.ts";
import { NodePolicySchema, ResultErrorSchema, WorkflowNodeStateSchema, WorkflowSchema } from "../definitions/workflow.ts";
import { EventSchema, eventDataSchemas } from "../events/server-events.ts";
import { type FaultCode, faultCodes } from "../faults/fault-codes.ts";
import * as catalogBodies from "../rest/bodies/catalog-bodies.ts";
import * as packageBodies from "../rest/bodies/package-bodies.ts";
import * as packageFleetBodies from "../rest/bodies/package-fleet-bodies.ts";
import * as resourceBodies from "../rest/bodies/resource-bodies.ts";
import * as runBodies from "../rest/bodies/run-bodies.ts";
import * as runOperationBodies from "../rest/bodies/run-operation-bodies.ts";
import * as runPartBodies from "../rest/bodies/run-part-bodies.ts";
import * as viewBodies from "../rest/bodies/saved-view-bodies.ts";
import * as userBodies from "../rest/bodies/user-bodies.ts";
import * as workerBodies from "../rest/bodies/worker-bodies.ts";
import * as enrolmentBodies from "../rest/bodies/worker-enrolment-bodies.ts";
import * as workflowBodies from "../rest/bodies/workflow-bodies.ts";
import * as workflowEditBodies from "../rest/bodies/workflow-edit-bodies.ts";
import { type Route, type RouteName, routes } from "../rest/routes/route-table.ts";
import { type JsonSchemaObject, toJsonSchema } from "../schema/json-schema.ts";
import { closeSchemaNode } from "../schema/schema-reader.ts";
import type { SchemaNode } from "../schema/schema-violations.ts";
import { parameterExampleOf, requestExamples, responseExamples, textExamples } from "./operation-examples.ts";
import { operationLinks } from "./operation-links.ts";

/** Every exported `…Schema` of these modules is published under its name without `Schema`. */
const bodyModules: readonly object[] = [
  runBodies,
  runPartBodies,
  runOperationBodies,
  workerBodies,
  userBodies,
  resourceBodies,
  enrolmentBodies,
  workflowBodies,
  workflowEditBodies,
  catalogBodies,
  packageBodies,
  packageFleetBodies,
  viewBodies,
];
const publishedNames: Readonly<Record<string, string>> = { StoredWorkflowSchema: "KeptWorkflow" };

/** Schemas that get a name in the document; uses of them become references. */
function collectNamedSchemas(): ReadonlyMap<TSchema, string> {
  const documents = {
    Workflow: WorkflowSchema,
    WorkflowNodeState: WorkflowNodeStateSchema,
    Policy: NodePolicySchema,
    ResultError: ResultErrorSchema,
    Manifest: ManifestSchema,
    ManifestNode: ManifestSchema.properties.nodes.items,
    Event: EventSchema,
  };
  const events = Object.fromEntries(Object.entries(eventDataSchemas).map(([type, schema]) => [`Event.${type}`, schema]));
  const bodies = bodyModules.flatMap((module) =>
    Object.entries(module).flatMap(([name, schema]): [string, TSchema][] =>
      name.endsWith("Schema") ? [[publishedNames[name] ?? name.slice(0, -"Schema".length), schema as TSchema]] : [],
    ),
  );
  const all = [...bodies, ...Object.entries(documents), ...Object.entries(events)];
  return new Map(all.map(([name, schema]) => [schema, name]));
}

/** Bodies whose readers refuse unknown fields and that are no answers as well: an answer may get more fields. */
function collectClosedRequests(): ReadonlySet<TSchema> {
  const all: Route[] = Object.values(routes);
  const answers = new Set(all.flatMap(({ response, also = {} }) => [response, ...Object.values(also)]));
  return new Set(
    all.flatMap(({ request, takesUnknownFields }) =>
      request === undefined || takesUnknownFields || answers.has(request) ? [] : [request],
    ),
  );
}

export interface OpenapiDocument {
  openapi: "3.1.0";
  info: { title: string; version: string; description: string; license: { name: string; identifier: string } };
  servers: { url: string }[];
  security: Record<string, string[]>[];
  paths: Record<string, Record<string, unknown>>;
  components: { schemas: Record<string, JsonSchemaObject>; securitySchemes: Record<string, unknown> };
}

export function buildOpenapiDocument(): OpenapiDocument {
  const named = collectNamedSchemas();
  const refs = { root: "#/components/schemas/", named };
  const paths: OpenapiDocument["paths"] = {};
  for (const [operationId, route] of Object.entries(routes) as [RouteName, Route][]) {
    const path = (paths[route.path] ??= {});
    path[route.method.toLowerCase()] = buildOperation(operationId, route, (schema) => toJsonSchema(schema, refs));
  }
  const closed = collectClosedRequests();
  const schemas = Object.fromEntries(
    [...named].map(([schema, name]) => {
      const source = closed.has(schema) ? (closeSchemaNode(schema as SchemaNode) as TSchema) : schema;
      return [name, toJsonSchema(source, { ...refs, self: schema })];
    }),
  );
  return {
    openapi: "3.1.0",
    info: {
      title: "AstraFlow scheduler",
      version: "1.0.0",
      description:
        "Start, follow and cancel runs; look after workers. Every error has the body Error, whose code is one of docs/faults.md. " +
        "In JSON bodies no key is __proto__ or has a NUL or an unpaired surrogate in it, and none comes twice in an object; " +
        "an optional field that is null counts as left out.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths,
    components: { schemas, securitySchemes: { bearer: { type: "http", scheme: "bearer" } } },
  };
}

function buildOperation(
  operationId: RouteName,
  route: Route,
  toSchema: (schema: TSchema) => JsonSchemaObject,
): Record<string, unknown> {
  const parametersIn = (place: "path" | "header", schemas: Route["headers"] = {}) =>
    Object.entries(schemas).map(([name, schema]) => ({
      name,
      in: place,
      required: place === "path",
      schema: toSchema(schema),
      ...exampleField(parameterExampleOf(operationId, name)),
    }));
  const parameters = [
    ...parametersIn("path", route.params),
    ...Object.entries(route.query ?? {}).map(([name, query]) => ({
      name,
      in: "query",
      required: false,
      ...(query.description && { description: query.description }),
      schema: query.default === undefined ? toSchema(query.schema) : { ...toSchema(query.schema), default: query.default },
      ...exampleField(parameterExampleOf(operationId, name)),
    })),
    ...parametersIn("header", route.headers),
  ];
  const content =
    route.status === 204
      ? undefined
      : route.response
        ? { "application/json": { schema: toSchema(route.response), ...exampleField(responseExamples[operationId]) } }
        : {
            [route.media ?? "application/octet-stream"]: {
              schema: { type: "string" },
              ...exampleField(textExamples[operationId]),
            },
          };
  const example = exampleField(requestExamples[operationId]);
  const links = buildLinks(operationId);
  return {
    operationId,
    summary: route.summary,
    ...(route.isOpen && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(route.request && {
      requestBody: {
        required: !route.isBodyOptional,
        content: { "application/json": { schema: toSchema(route.request), ...example } },
      },
    }),
    ...(route.takes &&
      route.form && {
        requestBody: { required: true, content: { [route.takes]: { schema: toSchema(route.form), ...example } } },
      }),
    responses: {
      [String(route.status)]: { description: "Success.", ...(content && { content }), ...(links && { links }) },
      ...buildOtherResponses(route, toSchema),
      ...buildErrorResponses([...route.faults, ...unreadableFaults], toSchema),
    },
  };
}

const exampleField = (example: unknown) => (example === undefined ? {} : { example });

function buildLinks(operationId: RouteName): Record<string, unknown> | undefined {
  const links = operationLinks[operationId];
  return (
    links &&
    Object.fromEntries(Object.entries(links).map(([target, parameters]) => [target, { operationId: target, parameters }]))
  );
}

/** Of requests that are given up before their route is known; every route has them. */
const unreadableFaults = ["E.REQUEST.TIMEOUT", "E.REQUEST.HEAD_TOO_LARGE"] as const;

/** Of a route whose answer is a file, a stretch of it; else what has not changed is not sent again. */
const emptyOrPartialResponse = (status: number, media = "") =>
  status === 206
    ? { description: "The stretch that Range names.", content: { [media]: { schema: { type: "string" } } } }
    : { description: "Nothing has changed." };

function buildOtherResponses(
  { also = {}, media, request }: Route,
  toSchema: (schema: TSchema) => JsonSchemaObject,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(also).map(([status, schema]) => [
      status,
      schema === null
        ? emptyOrPartialResponse(Number(status), media)
        : {
            description: request === undefined ? "It was there already." : "Dry run: the plan; nothing was changed.",
            content: { "application/json": { schema: toSchema(schema) } },
          },
    ]),
  );
}

/** One answer per status, naming the codes that come with it. */
function buildErrorResponses(
  codes: readonly FaultCode[],
  toSchema: (schema: TSchema) => JsonSchemaObject,
): Record<string, unknown> {
  const byStatus = Map.groupBy(codes, (code) => faultCodes[code].http);
  return Object.fromEntries(
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, codesOfStatus]) => [
        String(status),
        {
          description: codesOfStatus.map((code) => `${code}: ${faultCodes[code].cause}`).join("\n"),
          content: { "application/json": { schema: toSchema(runBodies.ErrorSchema) } },
        },
      ]),
  );
}
