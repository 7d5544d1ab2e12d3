// For tests of whole command lines: a scheduler that is only its table of routes. Every route answers with a sample made from its schema, so
// what a command prints can be held against the API, and every request is noted.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Route, type RouteName, routes, type Workflow } from "@astraflow/protocol";
import { buildProgram, runProgram } from "../command-line/program.ts";

export const sampleId = "01a1dfbd-5bc1-7000-bf5a-574d1aa3f763";
export const sampleWorkflow = {
  id: sampleId,
  schemaVersion: "2025-10",
  metadata: { name: "sample" },
  nodes: [
    { id: sampleId, type: "demo.text", label: "sample", package: { name: "demo", version: "1.0.0" }, position: { x: 0, y: 0 } },
  ],
  edges: [],
} as unknown as Workflow;

interface JsonSchema {
  readonly [key: string]: unknown;
}
const subschemas = (value: unknown): readonly JsonSchema[] => (Array.isArray(value) ? (value as JsonSchema[]) : []);

/** A value that fits a schema, with all that is optional in it. */
export function sampleForSchema(given: object): unknown {
  const schema = given as JsonSchema;
  if ("$defs" in schema) return sampleWorkflow;
  if ("const" in schema) return schema["const"];
  if (Array.isArray(schema["enum"])) return schema["enum"][0];
  if ("anyOf" in schema) return sampleForSchema(subschemas(schema["anyOf"])[0] ?? {});
  if ("allOf" in schema) return Object.assign({}, ...subschemas(schema["allOf"]).map((one) => sampleForSchema(one) as object));
  switch (schema["type"]) {
    case "object": {
      const properties = Object.entries((schema["properties"] ?? {}) as Record<string, object>);
      return Object.fromEntries(properties.map(([name, node]) => [name, name === "nextCursor" ? null : sampleForSchema(node)]));
    }
    case "array":
      return [sampleForSchema(schema["items"] ?? {})];
    case "string":
      return sampleString(schema);
    case "integer":
    case "number":
      return schema["minimum"] ?? 1;
    case "boolean":
      return true;
    default:
      return null;
  }
}

const sampleStrings: Readonly<Record<string, string>> = { "date-time": "2026-01-31T12:00:00.000Z", uuid: sampleId };
const sampleString = ({ format, pattern }: JsonSchema): string => {
  const [, digits] = /^\^\[[A-Fa-f0-9-]+\]\{(\d+)\}\$$/.exec(String(pattern)) ?? [];
  if (digits !== undefined) return "0".repeat(Number(digits));
  return sampleStrings[String(format)] ?? "sample";
};

export interface FakeApi {
  readonly url: string;
  /** Operation and body of every request, in order. */
  readonly requests: readonly { readonly name: RouteName; readonly body: unknown }[];
  /** Answers in place of the samples: a body, or a status with one. */
  setResponse(name: RouteName, body: unknown, status?: number): void;
  /** Runs one command line against it. */
  run(
    argv: readonly string[],
    more?: Partial<Parameters<typeof runProgram>[1]>,
  ): Promise<{ exitCode: number; out: string; err: string }>;
  close(): Promise<void>;
}

export async function startFakeApi(): Promise<FakeApi> {
  const requests: { name: RouteName; body: unknown }[] = [];
  const answers = new Map<RouteName, { body: unknown; status: number | undefined }>();
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const name = findRoute(request);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    if (name === null) return void response.writeHead(404).end("{}");
    // A form is noted as it was sent.
    const isForm = request.headers["content-type"]?.startsWith("multipart/") === true;
    const body: unknown = text === "" ? undefined : isForm ? text : JSON.parse(text);
    requests.push({ name, body });
    const route: Route = routes[name];
    const own = answers.get(name);
    const status = own?.status ?? route.status;
    const answerBody =
      own === undefined ? sampleResponse(name, route, body) : typeof own.body === "function" ? own.body(body) : own.body;
    response
      .writeHead(status, { "content-type": "application/json" })
      .end(answerBody === undefined ? "" : JSON.stringify(answerBody));
  };
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    requests,
    setResponse: (name, body, status) => void answers.set(name, { body, status }),
    run: (argv, more) => runCommandLine(argv, { ASTRA_URL: url }, more),
    close: () => new Promise((resolve) => (server.closeAllConnections(), server.close(() => resolve()))),
  };
}

/** Runs one command line in an environment of its own. */
export async function runCommandLine(
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
  more: Partial<Parameters<typeof runProgram>[1]> = {},
): Promise<{ exitCode: number; out: string; err: string }> {
  const output = { out: "", err: "" };
  const never = new AbortController().signal;
  const exitCode = await runProgram(argv, {
    stdout: { write: (text) => (output.out += text) },
    stderr: { write: (text) => (output.err += text) },
    stopSignal: never,
    forceStopSignal: never,
    ...more,
    env: { ...env, ...more.env },
  });
  return { exitCode, ...output };
}

function findRoute({ method, url = "" }: IncomingMessage): RouteName | null {
  const path = url.replace(/\?.*/, "");
  const fits = (route: Route): boolean =>
    route.method === method && new RegExp(`^${route.path.replace(/\{\w+\}/g, "[^/]+")}$`).test(path);
  // A path without parameters is meant before one with them: /runs/bulk is no run.
  const found = Object.entries(routes as Record<RouteName, Route>).filter(([, route]) => fits(route));
  const [first] = found.toSorted(([, a], [, b]) => a.path.split("{").length - b.path.split("{").length);
  return (first?.[0] as RouteName | undefined) ?? null;
}

function sampleResponse(name: RouteName, route: Route, body: unknown): unknown {
  const isRehearsed = typeof body === "object" && body !== null && "dryRun" in body && body.dryRun === true;
  const other = Object.values(route.also ?? {}).find((schema) => schema !== null);
  if (name === "startRun" && isRehearsed && other !== undefined) return { ...(sampleForSchema(other) as object), problems: [] };
  return route.response === undefined ? undefined : sampleForSchema(route.response);
}

/** Every command that does something, by its words. */
export function listLeafCommands(): { readonly words: string; readonly command: ReturnType<typeof buildProgram> }[] {
  const never = new AbortController().signal;
  const nowhere = { write: () => undefined };
  const program = buildProgram(
    { stdout: nowhere, stderr: nowhere, env: {}, stopSignal: never, forceStopSignal: never },
    () => undefined,
  );
  const walk = (command: typeof program, before: readonly string[]): { words: string; command: typeof program }[] =>
    command.commands
      .filter((one) => !["help", "scheduler", "worker"].includes(one.name()))
      .flatMap((one) => {
        const path = [...before, one.name()];
        return one.commands.length > 0 ? walk(one, path) : [{ words: path.join(" "), command: one }];
      });
  return walk(program, []);
}
