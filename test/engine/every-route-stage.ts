// A town of two tenants for tests of every REST route: the real engine, a real store and the HTTP door, with one of each thing that a route
// can be asked about. Each tenant has the same things under ids of its own.

import { createHash } from "node:crypto";
import {
  allGrants,
  createMetricsRegistry,
  createRestServer,
  createTokenAuthenticator,
  createUserAccounts,
  type EngineClient,
} from "@astraflow/doors";
import {
  cheapPasswordCost,
  createFakeEnvironment,
  createManifestRecorder,
  type FakeEnvironment,
  sampleManifest,
} from "@astraflow/doors/testing";
import type { Permission, RouteName } from "@astraflow/protocol";
import type { Stage } from "@astraflow/store/testing";
import { bodyOf, type Things, urlOf } from "./every-route-examples.ts";
import { chain, Harness, nodeId } from "./harness.ts";
import { linkTo } from "./rest-link.ts";

/** One token for each grant alone, one for all and one for none, in both tenants. */
const tokens = ["t1", "t2"].flatMap((tenant) => [
  { token: `${tenant}-all`, tenant, user: `${tenant}-boss`, grants: allGrants },
  { token: `${tenant}-none`, tenant, user: `${tenant}-nobody`, grants: [] as Permission[] },
  ...allGrants.map((grant) => ({ token: `${tenant}-but-${grant}`, tenant, user: `${tenant}-x`, grants: without(grant) })),
]);

function without(grant: Permission): Permission[] {
  return allGrants.filter((one) => one !== grant);
}

export interface Asked {
  readonly token?: string | null;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object becomes JSON; a text or bytes leave as they are; null: none. */
  readonly body?: unknown;
}

export interface Told {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  /** What a test looks at is up to the test. */
  readonly body: ReturnType<typeof JSON.parse>;
}

export interface Town {
  readonly world: Harness;
  readonly outside: FakeEnvironment;
  readonly mine: Things;
  readonly theirs: Things;
  /** The example of this route, but for what is said here. */
  ask(name: RouteName, asked?: Asked): Promise<Told>;
  /** Everything that a refused request must leave alone. */
  trace(): Promise<string>;
  close(): Promise<void>;
}

const digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

export async function openTown(stage: Stage): Promise<Town> {
  const world = await new Harness({ store: stage.handle() }).start();
  const engineClient = linkTo(world);
  const environment = createFakeEnvironment();
  const reader = world.store;
  const app = createRestServer({
    engineClient,
    reader,
    environment,
    digest,
    people: createUserAccounts({ engineClient, reader, environment, passwordCost: cheapPasswordCost }),
    authenticate: createTokenAuthenticator(tokens),
    metrics: createMetricsRegistry(),
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => null,
  });
  const send = async (method: string, url: string, { token = "t1-all", headers = {}, body }: Asked): Promise<Told> => {
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
  const mine = await furnish(world, engineClient, environment, send, "t1");
  const theirs = await furnish(world, engineClient, environment, send, "t2");
  return {
    world,
    outside: environment,
    mine,
    theirs,
    ask(name, { url, ...asked } = {}) {
      const example = bodyOf(name, mine);
      const [method, path] = urlOf(name, mine);
      return send(method, url ?? path, { ...example, ...asked, headers: { ...example.headers, ...asked.headers } });
    },
    trace: () => traceOf(world),
    async close() {
      await app.close();
      await world.engine.stop();
      await stage.close();
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
  "resource",
  "upload",
  "letter",
  "command",
  "bulk",
  "view",
];

async function traceOf({ store }: Harness): Promise<string> {
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

type Send = (method: string, url: string, asked: Asked) => Promise<Told>;

/** One of each thing, made the way that a caller makes it. */
async function furnish(
  world: Harness,
  engineClient: EngineClient,
  environment: FakeEnvironment,
  send: Send,
  tenant: "t1" | "t2",
): Promise<Things> {
  const token = `${tenant}-all`;
  const n = tenant === "t1" ? 700 : 800;
  const post = async (url: string, body: unknown, headers: Record<string, string> = {}) => {
    const told = await send("POST", url, { token, body, headers });
    if (told.status >= 300) throw new Error(`${url} answered ${told.status} ${JSON.stringify(told.body)}`);
    return told.body;
  };
  const manifests = createManifestRecorder({ engineClient, reader: world.store, digest, environment });
  const name = `pkg-${tenant}`;
  manifests.recordManifests(tenant, [{ name, version: "1.0.0", manifest: sampleManifest(name, "1.0.0") }]);
  await manifests.whenIdle();
  const workerId = `w-${tenant}`;
  const crew = await world.join(workerId, { tenant, features: ["fence", "cancel", "held", "pkg", "ext"] });
  const workflow = { ...chain(3), id: nodeId(n) };
  const failed = (await post("/api/v1/runs", { workflow, clientId: "c" })).runId as string;
  await world.settle();
  const dead = crew.last.task;
  await crew.error("E.RUNNER.FAILURE");
  const { runId } = await post("/api/v1/runs", { workflow, clientId: "c" });
  await world.settle();
  await post("/api/v1/workflows", workflow);
  await post(`/api/v1/workflows/${workflow.id}/versions`, {});
  const pack = await post(`/api/v1/workflows/${workflow.id}/publish`, { version: "1.0.0" });
  const bulk = await post("/api/v1/runs/bulk", { action: "dismiss", filter: { runIds: ["none"] } });
  const command = await post(`/api/v1/workers/${workerId}/commands`, { type: "pkg.install", name: "more", version: "1.0.0" });
  const password = "a long enough password";
  const user = await post("/api/v1/users", { username: `anna-${tenant}`, password, roles: ["admin"] });
  const login = { username: `anna-${tenant}`, password, tenant };
  const person = (await post("/api/v1/auth/login", login)).accessToken as string;
  const form = `--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello ${tenant}\r\n--x--\r\n`;
  const media = { "content-type": "multipart/form-data; boundary=x" };
  const resource = await post("/api/v1/resources", form, media);
  const upload = await post("/api/v1/resources/uploads", { filename: "b.bin", sizeBytes: 4 });
  const part = form.replace(`hello ${tenant}`, "1234");
  await send("PUT", `/api/v1/resources/uploads/${upload.uploadId}/parts/0`, { token, body: part, headers: media });
  const grant = await post("/api/v1/resource-grants", {
    resourceId: resource.resourceId,
    packageName: "test",
    resourceKey: "key",
    scope: "global",
  });
  const view = await post("/api/v1/views", { name: "mine", page: "runs", query: { status: "failed" } });
  return {
    workflow,
    person,
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
    packageName: name,
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
