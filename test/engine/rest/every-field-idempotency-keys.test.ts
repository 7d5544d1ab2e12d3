// One idempotency key on the same route and target with another body: every field that a body may have makes another request of it.

import { createSigningKey, nodePackageFiles, signFiles } from "@astraflow/archive/testing";
import type { RouteName } from "@astraflow/protocol";
import { createMemoryFixture } from "@astraflow/store/testing";
import { expect, it } from "vitest";
import { nodeId } from "../harness/engine-harness.ts";
import { findAnswerProblems, routeNames, routeOf } from "./answer-checker.ts";
import { openRestFixture, type RestFixture } from "./rest-fixture.ts";
import { exampleRequest, type TenantSamples } from "./route-examples.ts";

type Fields = Readonly<Record<string, unknown>>;

interface OtherBodies {
  /** Put over the example, so that the values below fit it. */
  readonly base?: Fields;
  /** For each field a value that the body does not have; undefined leaves the field out. */
  readonly values: Fields;
}

const otherReason = () => [{ values: { reason: "another" } }];
const pixel = "data:image/png;base64,AAAA";
const otherPackages = [{ name: "another", version: "1.0.0" }];
const sha256 = "0".repeat(64);
const { signature } = signFiles(createSigningKey().privateKey, nodePackageFiles("more", "2.0.0"));

/** `more` is a second set of things of the same tenant. */
type MakeOtherBodies = (samples: TenantSamples, more: TenantSamples) => readonly OtherBodies[];

const otherBodies: { readonly [N in RouteName]?: MakeOtherBodies } = {
  startRun: ({ workflow, workflowId, failedRunId }, more) => [
    {
      values: {
        workflow: { ...workflow, metadata: { name: "another" } },
        clientId: "another",
        priority: 4,
        timeoutMs: 2_000,
        labels: { city: "Rome" },
        pins: { [nodeId(0)]: { out: 1 } },
        from: nodeId(0),
        to: nodeId(1),
        reuse: failedRunId,
        allowUnknown: true,
      },
    },
    { base: { workflow: undefined, workflowId, version: 1 }, values: { workflowId: more.workflowId, version: "draft" } },
    { base: { pins: { [nodeId(0)]: { out: 1 } } }, values: { pins: { [nodeId(0)]: { out: 2 } } } },
  ],
  retryRun: otherReason,
  replayRun: () => [{ values: { from: undefined, version: "draft", allowUnknown: true } }],
  rebindRun: ({ workerId }) => [{ values: { node: nodeId(1), worker: workerId, mode: "switch" } }],
  rebindSchedulerRun: ({ workerId }) => [{ values: { node: nodeId(1), worker: workerId, mode: "drain" } }],
  skipNode: otherReason,
  retryNode: otherReason,
  requeueDeadLetter: otherReason,
  dismissDeadLetter: otherReason,
  changeRuns: () => [
    { values: { action: "retry", filter: { status: ["failed"] }, reason: "another" } },
    { base: { action: "replay" }, values: { from: nodeId(1), version: "draft" } },
  ],
  kickWorker: otherReason,
  enrolWorker: () => [
    {
      values: {
        workerId: "another",
        name: "another",
        capabilities: { pool: "another" },
        packages: otherPackages,
        runtimes: ["python"],
      },
    },
  ],
  signWorker: (_, more) => [{ values: { workerId: more.workerId, status: "another", packages: otherPackages } }],
  commandWorker: ({ workerId }, more) => [
    {
      values: {
        name: "another",
        version: "3.0.0",
        url: "https://packages.test/another.zip",
        sha256,
        signature,
        allowOlder: true,
        deadlineMs: 60_000,
      },
    },
    { base: { type: "pkg.uninstall", url: undefined }, values: { type: "pkg.install", deadlineMs: 60_000 } },
    {
      base: { type: "rebind", queue: `worker.${more.workerId}`, name: undefined, version: undefined, url: undefined },
      values: { queue: `worker.${workerId}` },
    },
  ],
  saveWorkflow: ({ workflow }) => [
    {
      values: {
        id: nodeId(901),
        schemaVersion: "2025-11",
        metadata: { name: "another" },
        nodes: (workflow["nodes"] as Fields[]).map((node) => ({ ...node, label: "another" })),
        edges: [],
        runtimes: {},
        schemaMode: "warn",
        tags: ["another"],
        previewImage: pixel,
        subgraphs: [],
        allowUnknown: false,
      },
    },
  ],
  importWorkflow: ({ workflow }) => [
    {
      values: {
        workflow: { ...workflow, id: nodeId(901) },
        previewImage: pixel,
        versions: [
          { version: 1, publishedAt: "2026-01-01T00:00:00.000Z", publishedBy: "ann", workflow: { ...workflow, id: nodeId(900) } },
        ],
        omitted: 1,
        asOf: 7,
        allowUnknown: false,
      },
    },
  ],
  publishVersion: () => [{ values: { revision: undefined, note: "another", allowUnknown: false } }],
  publishWorkflow: ({ packageId }) => [
    {
      values: {
        version: "1.2.0",
        packageId,
        slug: "another",
        displayName: "another",
        summary: "another",
        visibility: "public",
        tags: ["b"],
        changelog: "another",
        previewImage: pixel,
        allowUnknown: false,
      },
    },
  ],
  cloneWorkflowPackage: ({ packageVersionId }) => [
    { values: { versionId: packageVersionId, version: undefined, workflowName: "another", allowUnknown: false } },
  ],
  createUser: () => [
    { values: { username: "anton", password: "yet another long password", displayName: "Another", roles: ["admin"] } },
  ],
  setUserPassword: () => [{ values: { password: "yet another long password" } }],
  addUserRole: () => [{ values: { role: "workflow.viewer" } }],
  createUpload: () => [
    {
      values: {
        filename: "another",
        sizeBytes: 8,
        mimeType: "text/html",
        sha256,
        metadata: { of: "another" },
        provider: "db",
        visibility: "public",
        chunkSize: 5,
      },
    },
  ],
  createResourceGrant: ({ workflowId }, more) => [
    {
      values: {
        resourceId: more.resourceId,
        packageName: "another",
        resourceKey: "another",
        packageVersion: "2.0.0",
        metadata: { of: "another" },
        actions: ["write"],
      },
    },
    { base: { scope: "workflow", workflowId }, values: { workflowId: more.workflowId } },
  ],
  addPackageKey: () => [{ values: { publicKey: createSigningKey().publicKey, name: "another", packages: ["another.*"] } }],
  installPackage: (_, more) => [
    { values: { action: "uninstall", version: "2.0.0", workers: [more.workerName], allowOlder: false } },
    { base: { workers: undefined, pool: "default" }, values: { pool: "another", all: true } },
  ],
  startRollout: () => [
    { values: { version: "2.0.0", pool: "default", phases: ["100%"], failures: { max: 2 }, observeMs: 2_000 } },
  ],
  stopRollout: () => [{ values: { rollback: true } }],
  rollbackPackage: () => [{ values: { to: "1.1.0", pool: "default" } }],
  createView: () => [{ values: { name: "another", page: "workers", query: "another", columns: ["status"], shared: false } }],
};

/** Nothing is kept about the keys of the first two; a rollback needs a second version and has a test of its own. */
const routesWithoutTable: ReadonlySet<RouteName> = new Set(["tellWorker", "logout", "rollbackWorkflow"]);
const keyed = routeNames.filter(
  (name) =>
    routeOf(name).headers?.["Idempotency-Key"] !== undefined &&
    routeOf(name).request !== undefined &&
    !routesWithoutTable.has(name),
);

async function useKeyForOtherBodies(fixture: RestFixture, name: RouteName, { base, values }: OtherBodies): Promise<string[]> {
  const { send, harness, storedState, ownSamples } = fixture;
  const body = { ...(exampleRequest(name, ownSamples).body as Fields), ...base };
  const headers = { "idempotency-key": "key-1" };
  const first = await send(name, { headers, body });
  if (first.status >= 300) return [`${first.status} ${JSON.stringify(first.body)}`];
  await harness.settle();
  const before = await storedState();
  const problems: string[] = [];
  for (const [field, value] of Object.entries(values)) {
    const second = await send(name, { headers, body: { ...body, [field]: value } });
    await harness.settle();
    if (second.status !== 409 || second.body?.error !== "E.IDEMPOTENCY.MISMATCH")
      problems.push(`another ${field}: ${second.status} ${JSON.stringify(second.body)}`);
    problems.push(...findAnswerProblems(name, second));
  }
  if ((await storedState()) !== before) problems.push("another body had an effect");
  return problems;
}

it.each(keyed)(
  "[A871] an idempotency key used with %s is refused where one field of the body differs, whichever it is",
  async (name) => {
    const problems: string[] = [];
    const tried = new Set<string>();
    let bodies: OtherBodies | undefined;
    for (let at = 0; at === 0 || bodies !== undefined; at++) {
      const fixture = await openRestFixture(await createMemoryFixture("strong"));
      bodies = otherBodies[name]?.(fixture.ownSamples, await fixture.createMoreOwnSamples())[at];
      if (bodies !== undefined) problems.push(...(await useKeyForOtherBodies(fixture, name, bodies)));
      for (const field of Object.keys(bodies?.values ?? {})) tried.add(field);
      await fixture.close();
    }
    expect(problems).toEqual([]);
    expect(fieldsOf(routeOf(name).request).filter((field) => !tried.has(field) && !isExempt(name, field))).toEqual([]);
  },
);

/** A dry run keeps no key; one format exists; the scope of a grant changes only together with its workflow. */
const isExempt = (name: RouteName, field: string): boolean =>
  field === "dryRun" || ["importWorkflow.format", "createResourceGrant.scope"].includes(`${name}.${field}`);

interface BodySchema {
  readonly properties?: Fields;
  readonly anyOf?: readonly BodySchema[];
  readonly allOf?: readonly BodySchema[];
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, BodySchema>>;
}

function fieldsOf(schema: BodySchema | undefined): string[] {
  if (schema === undefined) return [];
  const { properties = {}, anyOf = [], allOf = [], $ref = "", $defs = {} } = schema;
  return [...new Set([...Object.keys(properties), ...[...anyOf, ...allOf].flatMap(fieldsOf), ...fieldsOf($defs[$ref])])];
}
