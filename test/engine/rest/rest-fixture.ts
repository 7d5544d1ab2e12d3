// REST fixture: engine, store and HTTP server with one sample object of each kind for two tenants, which have equal objects under
// different ids.

import { createHash } from "node:crypto";
import { createSigningKey } from "@astraflow/archive/testing";
import { createMetricsRegistry, createRestServer, createTokenAuthenticator } from "@astraflow/doors";
import { cheapPasswordCost } from "@astraflow/doors/testing";
import type { Permission, RouteName } from "@astraflow/protocol";
import { allGrants, type EngineClient, ManifestRecorder, UserAccounts } from "@astraflow/services";
import { createFakeEnvironment, type FakeEnvironment, sampleManifest } from "@astraflow/services/testing";
import type { StoreFixture } from "@astraflow/store/testing";
import { buildChain, EngineHarness, nodeId } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";
import { exampleRequest, exampleUrl, packageForm, type TenantSamples } from "./route-examples.ts";

/** One token for each grant alone, one for all and one for none, in both tenants. */
const tokens = ["t1", "t2"].flatMap((tenant) => [
  { token: `${tenant}-all`, tenant, user: `${tenant}-boss`, grants: allGrants },
  { token: `${tenant}-none`, tenant, user: `${tenant}-nobody`, grants: [] as Permission[] },
  {
    token: `${tenant}-but-read+worker`,
    tenant,
    user: `${tenant}-x`,
    grants: allGrants.filter((one) => one !== "read" && one !== "worker"),
  },
  ...allGrants.map((grant) => ({ token: `${tenant}-but-${grant}`, tenant, user: `${tenant}-x`, grants: allGrantsBut(grant) })),
]);

function allGrantsBut(grant: Permission): Permission[] {
  // With admin the metrics of the own tenant are shown as well.
  return allGrants.filter((one) => one !== grant && !(grant === "metrics" && one === "admin"));
}

export interface TestRequest {
  readonly token?: string | null;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object becomes JSON; a text or bytes leave as they are; null: none. */
  readonly body?: unknown;
}

export interface TestResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  /** What a test looks at is up to the test. */
  readonly body: ReturnType<typeof JSON.parse>;
}

export interface RestFixture {
  readonly harness: EngineHarness;
  readonly outside: FakeEnvironment;
  readonly ownSamples: TenantSamples;
  readonly otherTenantSamples: TenantSamples;
  /** A second one of each thing of the own tenant. */
  createMoreOwnSamples(): Promise<TenantSamples>;
  /** Sends the example of this route, with these parts replaced. */
  send(name: RouteName, asked?: TestRequest): Promise<TestResponse>;
  /** Everything that a refused request must leave alone. */
  storedState(): Promise<string>;
  close(): Promise<void>;
}

const digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

export async function openRestFixture(cluster: StoreFixture): Promise<RestFixture> {
  const harness = await new EngineHarness({ store: cluster.createHandle() }).start();
  const engineClient = createHarnessLink(harness);
  const environment = createFakeEnvironment();
  const reader = harness.store;
  const app = createRestServer({
    engineClient,
    reader,
    environment,
    digest,
    people: new UserAccounts({ engineClient, reader, environment, passwordCost: cheapPasswordCost }),
    authenticate: createTokenAuthenticator(tokens),
    metrics: createMetricsRegistry(),
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
  });
  const send = async (
    method: string,
    url: string,
    { token = "t1-all", headers = {}, body }: TestRequest,
  ): Promise<TestResponse> => {
    const isJson = body !== undefined && body !== null && typeof body !== "string" && !Buffer.isBuffer(body);
    const answer = await app.inject({
      method: method as "GET",
      url,
      headers: {
        ...(token !== null && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && body !== null && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && body !== null && { payload: isJson ? JSON.stringify(body) : (body as string | Buffer) }),
    });
    const isText = answer.body === "" || !String(answer.headers["content-type"]).startsWith("application/json");
    return { status: answer.statusCode, headers: answer.headers, body: isText ? answer.body : JSON.parse(answer.body) };
  };
  const createSamplesOf = (tenant: "t1" | "t2", mark: string, n: number) =>
    createSamples({ harness, engineClient, environment, send }, { tenant, mark, n });
  const mine = await createSamplesOf("t1", "t1", 700);
  const theirs = await createSamplesOf("t2", "t2", 800);
  return {
    harness,
    outside: environment,
    ownSamples: mine,
    otherTenantSamples: theirs,
    send(name, { url, ...asked } = {}) {
      const example = exampleRequest(name, mine);
      const [method, path] = exampleUrl(name, mine);
      return send(method, url ?? path, { ...example, ...asked, headers: { ...example.headers, ...asked.headers } });
    },
    createMoreOwnSamples: () => createSamplesOf("t1", "more", 750),
    storedState: () => readStoredState(harness),
    async close() {
      await app.close();
      await harness.engine.stop();
      await cluster.close();
    },
  };
}

const collections = [
  "workflow",
  "version",
  "wpackage",
  "wpversion",
  "user",
  "grant",
  "package",
  "package-version",
  "package-key",
  "package-install",
  "rollout",
  "rollout-lock",
  "resource",
  "upload",
  "letter",
  "command",
  "bulk",
  "view",
];

async function readStoredState({ store }: EngineHarness): Promise<string> {
  const words: string[] = [];
  for (const tenant of ["t1", "t2"]) {
    const { items: facts } = await store.events({ tenant, after: 0, limit: 10_000 });
    // That somebody asked and was refused may be kept.
    words.push(`${tenant} ${facts.filter(({ type }) => !type.startsWith("audit.")).length}`);
    for (const collection of collections) {
      const { items } = await store.page({ page: "docs", tenant, collection, limit: 100 });
      words.push(...items.map((doc) => `${doc.id} ${doc.rev}`));
    }
  }
  return words.join("\n");
}

type SendRequest = (method: string, url: string, asked: TestRequest) => Promise<TestResponse>;

interface SampleWorld {
  readonly harness: EngineHarness;
  readonly engineClient: EngineClient;
  readonly environment: FakeEnvironment;
  readonly send: SendRequest;
}

/** One of each thing, made the way that a caller makes it. `mark` and `n` tell the things of one set from those of another. */
async function createSamples(
  { harness, engineClient, environment, send }: SampleWorld,
  { tenant, mark, n }: { readonly tenant: "t1" | "t2"; readonly mark: string; readonly n: number },
): Promise<TenantSamples> {
  const token = `${tenant}-all`;
  const post = async (url: string, body: unknown, headers: Record<string, string> = {}) => {
    const response = await send("POST", url, { token, body, headers });
    if (response.status >= 300) throw new Error(`${url} answered ${response.status} ${JSON.stringify(response.body)}`);
    return response.body;
  };
  const manifests = new ManifestRecorder({ engineClient, reader: harness.store, digest, environment });
  const name = `pkg-${mark}`;
  manifests.recordManifests(tenant, [{ name, version: "1.0.0", manifest: sampleManifest(name, "1.0.0") }]);
  await manifests.whenIdle();
  const workerId = `w-${mark}`;
  const worker = await harness.joinWorker(workerId, {
    tenant,
    features: ["fence", "cancel", "held", "pkg", "ext", "pkg.install"],
    packages: [
      { name: "test", version: "1.0.0", status: "installed" },
      { name: `${name}-held`, version: "1.1.0", status: "installed" },
    ],
  });
  const workflow = { ...buildChain(3), id: nodeId(n) };
  const failed = (await post("/api/v1/runs", { workflow, clientId: "c" })).runId as string;
  await harness.settle();
  const dead = worker.lastDispatch.task;
  await worker.error("E.RUNNER.FAILURE");
  const { runId } = await post("/api/v1/runs", { workflow, clientId: "c" });
  await harness.settle();
  await post("/api/v1/workflows", workflow);
  await post(`/api/v1/workflows/${workflow.id}/versions`, {});
  const pack = await post(`/api/v1/workflows/${workflow.id}/publish`, { version: "1.0.0" });
  const bulk = await post("/api/v1/runs/bulk", { action: "dismiss", filter: { runIds: ["none"] } });
  const command = await post(`/api/v1/workers/${workerId}/commands`, {
    type: "pkg.install",
    name: "more",
    version: "1.0.0",
    url: "https://packages.test/more.zip",
  });
  const password = "a long enough password";
  const user = await post("/api/v1/users", { username: `anna-${mark}`, password, roles: ["admin"] });
  const login = { username: `anna-${mark}`, password, tenant };
  const person = (await post("/api/v1/auth/login", login)).accessToken as string;
  const form = `--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello ${mark}\r\n--x--\r\n`;
  const media = { "content-type": "multipart/form-data; boundary=x" };
  const resource = await post("/api/v1/resources", form, media);
  const upload = await post("/api/v1/resources/uploads", { filename: "b.bin", sizeBytes: 4 });
  const part = form.replace(`hello ${mark}`, "1234");
  await send("PUT", `/api/v1/resources/uploads/${upload.uploadId}/parts/0`, { token, body: part, headers: media });
  const grant = await post("/api/v1/resource-grants", {
    resourceId: resource.resourceId,
    packageName: "test",
    resourceKey: `key-${mark}`,
    scope: "global",
  });
  const signingKey = createSigningKey();
  const packageKey = await post("/api/v1/package-keys", { publicKey: signingKey.publicKey, name: `key-${mark}` });
  await post("/api/v1/packages", packageForm(signingKey.privateKey, name, "1.0.0"), media);
  const model = exampleRequest("putPackageResource", {} as TenantSamples);
  await send("PUT", `/api/v1/packages/${name}/1.0.0/resources/resources/model.bin`, { token, ...model });
  const [rolling, held] = [`${name}-rolling`, `${name}-held`];
  for (const [of, version] of [
    [rolling, "1.0.0"],
    [held, "1.0.0"],
    [held, "1.1.0"],
  ] as const)
    await post("/api/v1/packages", packageForm(signingKey.privateKey, of, version), media);
  const rollout = await post(`/api/v1/packages/${rolling}/rollouts`, { version: "1.0.0" });
  const install = await post(`/api/v1/packages/${name}/installs`, { workers: [workerId] });
  const view = await post("/api/v1/views", { name: `view-${mark}`, page: "runs", query: { status: "failed" } });
  return {
    workflow,
    userToken: person,
    login,
    runId,
    failedRunId: failed,
    nodeId: nodeId(0),
    workerId,
    workerName: workerId,
    taskId: dead,
    bulkId: bulk.bulkId,
    commandId: command.commandId,
    workflowId: workflow.id,
    version: "1",
    packageId: pack.packageId,
    packageVersionId: pack.versionId,
    packageName: name,
    packageVersion: "1.0.0",
    rolloutPackageName: rolling,
    heldPackageName: held,
    rolloutId: rollout.rolloutId,
    installId: install.installId,
    resourcePath: "resources/model.bin",
    keyId: packageKey.keyId,
    packageSigningKey: signingKey.privateKey,
    userId: user.userId,
    role: "run.viewer",
    resourceId: resource.resourceId,
    uploadId: upload.uploadId,
    partNumber: "0",
    grantId: grant.grantId,
    viewId: view.viewId,
    type: "ext.vendor.acme.hello",
  };
}
