// The client as a package that stands alone: `node scripts/publish/client-package.ts [folder]` compiles its sources, with the routes and types of the
// OpenAPI document in place of the private protocol package, into packages/client/dist or another folder. `npm pack` of it is what is handed on.

import { join, resolve } from "node:path";
import { buildOpenapiDocument, faultCodes, type Route, type RouteName, routes } from "@astraflow/protocol";
import { buildPublishedPackage } from "./published-package.ts";
import { declareType, docComment, propertyKey, type SchemaNode, typeOf } from "../generate/typescript-types.ts";
import { repositoryRoot } from "../repository-files.ts";

/** Names that would hide a type of the language or of browsers, or that no type can have. */
const renamedTypes: Readonly<Record<string, string>> = { Error: "ErrorBody", Event: "EventEnvelope" };
const typeNameOf = (name: string): string =>
  renamedTypes[name] ?? name.replaceAll(/(?:^|\.)(\w)/g, (_, first: string) => first.toUpperCase());

/** What the client imports from the protocol package, written from the OpenAPI document. */
function generateApiModule(): string {
  const { components, paths } = buildOpenapiDocument();
  const schemas = Object.entries(components.schemas) as [string, SchemaNode][];
  const kinds = schemas.flatMap(([name]) => (name.startsWith("Event.") ? [name.slice("Event.".length)] : []));
  const operations = new Map(
    Object.values(paths).flatMap((path) => Object.values(path).map((one) => [(one as Operation).operationId, one as Operation])),
  );
  const rows = Object.entries(routes as Record<RouteName, Route>);
  return [
    "// The routes and types of the scheduler's REST API, made from its OpenAPI document; do not edit.\n",
    "export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;",
    "export interface JsonObject {\n  [key: string]: JsonValue;\n}\n",
    ...schemas.map(([name, schema]) => declareType(typeNameOf(name), schema, typeNameOf)),
    `export interface EventKinds {\n${kinds.map((kind) => `  ${propertyKey(kind)}: ${typeNameOf(`Event.${kind}`)};\n`).join("")}}`,
    eventTypes,
    `export interface Operations {\n${rows.map(([name]) => generateOperation(name, operations.get(name))).join("")}}`,
    routeTypes,
    `export const routes: Readonly<Record<RouteName, Route>> = ${JSON.stringify(Object.fromEntries(rows.map(([name, route]) => [name, routeRow(route)])), null, 2)};\n`,
    `export type FaultCode = ${Object.keys(faultCodes)
      .map((code) => JSON.stringify(code))
      .join(" | ")};`,
    `export const faultCodes: Readonly<Record<FaultCode, { readonly http: number; readonly retry: boolean }>> = ${JSON.stringify(faultTable(), null, 2)};\n`,
    'export const isFaultCode = (code: unknown): code is FaultCode => typeof code === "string" && Object.hasOwn(faultCodes, code);\n',
  ].join("\n");
}

const eventTypes = `
export type EventType = keyof EventKinds;
export type EventData<K extends EventType = EventType> = EventKinds[K];
/** One event of the stream. */
export type ServerEvent<K extends EventType = EventType> = {
  [T in K]: Omit<EventEnvelope, "type" | "data"> & { type: T; data: EventKinds[T] };
}[K];
`;
const routeTypes = `
export type RouteName = keyof Operations;
/** Parameters of the path, of the query and the body, side by side. */
export type RouteInput<N extends RouteName> = Operations[N]["input"];
/** Routes whose answer is not JSON give the response itself. */
export type RouteAnswer<N extends RouteName> = Operations[N]["answer"];
/** A body that is not JSON is handed on as it is. */
export type RawBody = FormData | Blob | Uint8Array<ArrayBuffer> | string;
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, true>>;
  readonly headers?: Readonly<Record<string, true>>;
  /** The answer is JSON. */
  readonly response?: true;
  readonly media?: string;
  /** The body's media type where it is not JSON. */
  readonly takes?: string;
}
`;

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly { name: string; in: string; description?: string; schema: SchemaNode }[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}
type Content = Readonly<Record<string, { readonly schema: SchemaNode }>>;

function generateOperation(name: string, operation: Operation | undefined): string {
  if (operation === undefined) throw new Error(`the OpenAPI document has no operation ${name}`);
  const { summary, parameters = [], requestBody, responses } = operation;
  const indent = "      ";
  const inputs = parameters.flatMap(({ name: word, in: where, description, schema }) => {
    if (where === "header") return [];
    const type = typeOf(schema, typeNameOf, indent);
    return [
      `${docComment(description, indent)}${indent}${propertyKey(word)}${where === "path" ? `: ${type}` : `?: ${type} | undefined`};\n`,
    ];
  });
  if (requestBody !== undefined) {
    const json = requestBody.content["application/json"]?.schema;
    const body = json === undefined ? "RawBody" : typeOf(json, typeNameOf, indent);
    inputs.push(`${indent}body${requestBody.required ? `: ${body}` : `?: ${body} | undefined`};\n`);
  }
  const answers = Object.entries(responses)
    .filter(([status]) => Number(status) < 400)
    .flatMap(([, { content }]) => Object.entries(content ?? {}))
    .map(([media, { schema }]) => (media === "application/json" ? typeOf(schema, typeNameOf, "    ") : "Response"));
  const input = inputs.length === 0 ? "Record<never, never>" : `{\n${inputs.join("")}    }`;
  const answer = answers.length === 0 ? "undefined" : [...new Set(answers)].join(" | ");
  return `${docComment(summary, "  ")}  ${name}: {\n    input: ${input};\n    answer: ${answer};\n  };\n`;
}

/** Of a row what a request is made of; shapes are types here, and weigh nothing. */
function routeRow({ method, path, query, headers, response, media, takes }: Route): Record<string, unknown> {
  const keys = (of: object | undefined) => of && Object.fromEntries(Object.keys(of).map((key) => [key, true]));
  return { method, path, query: keys(query), headers: keys(headers), response: response && true, media, takes };
}

const faultTable = () =>
  Object.fromEntries(Object.entries(faultCodes).map(([code, { http, retry }]) => [code, { http, retry }] as const));

/** Compiles the package into an emptied folder. */
export const buildClient = (folder: string): void =>
  buildPublishedPackage(
    {
      workspace: "packages/client",
      description: "AstraFlow's REST API and its events as a typed client: nothing but fetch is needed.",
      exports: { ".": "index" },
      compilerOptions: { lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable"], types: [] },
      generated: { "api.ts": generateApiModule() },
      rewrite: (file, given) => {
        const text = given.replaceAll('"@astraflow/protocol"', '"./api.ts"');
        // Users of the package must be able to name the types, which the workspace has from the protocol package.
        return file === "index.ts" ? `${text}export type * from "./api.ts";\n` : text;
      },
    },
    folder,
  );

if (import.meta.main) {
  const folder = resolve(process.argv[2] ?? join(repositoryRoot, "packages/client/dist"));
  buildClient(folder);
  console.log(`built ${folder}; pack it with: npm pack ${folder}`);
}
