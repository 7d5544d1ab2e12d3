// For every REST route one request that is fine: what its tests start from and then spoil.

import { createHash } from "node:crypto";
import { nodePackageFiles, signFiles } from "@astraflow/archive/testing";
import { type Route, type RouteName, routes } from "@astraflow/protocol";
import { nodeId } from "../harness/engine-harness.ts";
import type { TestRequest } from "./rest-fixture.ts";

/** One of each thing of a tenant, by the names that paths have for it. */
export interface TenantSamples {
  readonly workflow: Readonly<Record<string, unknown>>;
  /** The token of somebody who has signed in. */
  readonly userToken: string;
  readonly login: Readonly<Record<string, string>>;
  readonly failedRunId: string;
  readonly runId: string;
  readonly nodeId: string;
  readonly workerId: string;
  readonly workerName: string;
  readonly taskId: string;
  readonly bulkId: string;
  readonly commandId: string;
  readonly workflowId: unknown;
  readonly version: string;
  readonly packageId: string;
  /** Of the version that was published under this package. */
  readonly packageVersionId: string;
  readonly packageName: string;
  readonly packageVersion: string;
  /** A package with a rollout that is under way, and one whose newest version a worker holds. */
  readonly rolloutPackageName: string;
  readonly heldPackageName: string;
  readonly rolloutId: string;
  readonly installId: string;
  readonly resourcePath: string;
  readonly keyId: string;
  /** In PEM; the key that is trusted under `keyId`. */
  readonly packageSigningKey: string;
  readonly userId: string;
  readonly role: string;
  readonly resourceId: string;
  readonly uploadId: string;
  readonly partNumber: string;
  readonly grantId: string;
  readonly viewId: string;
  readonly type: string;
}

const password = "another long password";
const media = { "content-type": "multipart/form-data; boundary=x" };
const form = (text: string) => `--x\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${text}\r\n--x--\r\n`;

/** Bytes that are put beside the archive. */
const modelBytes = "the weights";
const packageResources = {
  files: { "resources/data/words.txt": "hello" },
  manifest: {
    resources: [
      { path: "resources/data/words.txt", type: "file" },
      { path: "resources/model.bin", type: "file", sha256: createHash("sha256").update(modelBytes).digest("hex") },
    ],
  },
};

/** The archive of a version, with its signature, as a form. */
export function packageForm(signingKey: string, name: string, version: string): Buffer {
  const { archive, signature } = signFiles(signingKey, nodePackageFiles(name, version, packageResources));
  const field = `--x\r\ncontent-disposition: form-data; name="signature"\r\n\r\n${JSON.stringify(signature)}\r\n`;
  const head = `--x\r\ncontent-disposition: form-data; name="file"; filename="a.cwx"\r\n\r\n`;
  return Buffer.concat([Buffer.from(field + head), archive, Buffer.from("\r\n--x--\r\n")]);
}

const examples: { readonly [N in RouteName]?: (samples: TenantSamples) => TestRequest } = {
  startRun: ({ workflow }) => ({
    body: {
      workflow,
      clientId: "c",
      priority: 3,
      timeoutMs: 1_000,
      labels: { city: "Oslo" },
      dryRun: false,
      allowUnknown: false,
    },
  }),
  retryRun: () => ({ body: { reason: "again" } }),
  replayRun: ({ nodeId }) => ({ body: { from: nodeId, version: "same", allowUnknown: false } }),
  rebindRun: ({ nodeId }) => ({ body: { node: nodeId, mode: "drain" } }),
  rebindSchedulerRun: ({ nodeId }) => ({ body: { node: nodeId, mode: "switch" } }),
  skipNode: () => ({ body: { reason: "not today" } }),
  retryNode: () => ({ body: { reason: "again" } }),
  requeueDeadLetter: () => ({ body: { reason: "again" } }),
  dismissDeadLetter: () => ({ body: { reason: "old" } }),
  changeRuns: ({ runId }) => ({
    body: { action: "cancel", filter: { runIds: [runId], status: ["running"] }, reason: "no more" },
  }),
  kickWorker: () => ({ body: { reason: "out" } }),
  tellWorker: ({ workerId }) => ({ body: { workerId, payload: { hello: 1 } } }),
  enrolWorker: () => ({
    body: {
      workerId: "fresh",
      name: "fresh",
      capabilities: { concurrency: { maxParallel: 2 }, pool: "default", tags: { gpu: "no" } },
      packages: [{ name: "test", version: "1.0.0", status: "installed" }],
      runtimes: ["node"],
    },
  }),
  signWorker: ({ workerId }) => ({ body: { workerId, status: "healthy" } }),
  commandWorker: () => ({ body: { type: "pkg.install", name: "more", version: "2.0.0", url: "https://packages.test/more.zip" } }),
  saveWorkflow: ({ workflow }) => ({ body: { ...workflow, allowUnknown: true } }),
  importWorkflow: ({ workflow }) => ({
    body: { format: "astraflow.workflow/1", workflow: { ...workflow, id: nodeId(900) }, versions: [], allowUnknown: true },
  }),
  validateWorkflow: ({ workflow }) => ({ body: { ...workflow, allowUnknown: true } }),
  replaceWorkflow: ({ workflow }) => ({ body: { ...workflow, allowUnknown: false }, headers: { "if-match": '"r1"' } }),
  deleteWorkflow: () => ({ headers: { "if-match": '"r1"' } }),
  putWorkflowPreview: () => ({ body: { previewImage: "data:image/png;base64,AAAA" } }),
  editDraft: ({ nodeId }) => ({ body: { base: 1, edits: [{ op: "setNode", id: nodeId, path: "/label", value: "later" }] } }),
  publishVersion: () => ({ body: { revision: 1, note: "first", allowUnknown: true } }),
  rollbackWorkflow: () => ({ body: { version: 1 } }),
  publishWorkflow: () => ({ body: { version: "1.1.0", visibility: "private", tags: ["a"], allowUnknown: true } }),
  cloneWorkflowPackage: () => ({ body: { version: "1.0.0", workflowName: "mine", allowUnknown: true } }),
  login: ({ login }) => ({ body: login, token: null }),
  logout: ({ userToken: person }) => ({ token: person }),
  createUser: () => ({ body: { username: "berta", password, roles: ["run.viewer"], displayName: "Berta" } }),
  changeOwnUser: ({ userToken: person }) => ({ body: { displayName: "Anna" }, token: person }),
  setOwnPassword: ({ userToken: person, login }) => ({ body: { currentPassword: login["password"], password }, token: person }),
  setUserPassword: () => ({ body: { password } }),
  addUserRole: () => ({ body: { role: "run.viewer" } }),
  setUserStatus: () => ({ body: { isActive: false } }),
  createResource: () => ({ body: form("some bytes"), headers: media }),
  publishPackage: ({ packageName, packageSigningKey }) => ({
    body: packageForm(packageSigningKey, packageName, "1.1.0"),
    headers: media,
  }),
  putPackageResource: () => ({ body: form(modelBytes), headers: media }),
  addPackageKey: () => ({
    body: { publicKey: "y9xU4Q6KzL6pj9etYKn5M0hixLr16LbEwMN+mnRpNzM=", name: "Acme", packages: ["acme.*"] },
  }),
  installPackage: ({ workerName }) => ({ body: { version: "1.0.0", workers: [workerName], allowOlder: true } }),
  startRollout: () => ({
    body: { version: "1.0.0", phases: [1, "100%"], failures: { max: 1, ratio: 0.5, minTasks: 2 }, observeMs: 1_000 },
  }),
  stopRollout: () => ({ body: { rollback: false } }),
  rollbackPackage: () => ({ body: { to: "1.0.0" } }),
  createUpload: () => ({
    body: { filename: "c.bin", sizeBytes: 9, mimeType: "text/plain", visibility: "private", metadata: {} },
  }),
  putUploadPart: () => ({ body: form("1234"), headers: media }),
  createResourceGrant: ({ resourceId }) => ({
    body: { resourceId, packageName: "test", resourceKey: "other", scope: "global", actions: ["read"] },
  }),
  createView: () => ({ body: { name: "late", page: "runs", query: { status: "failed" }, columns: ["runId"], shared: true } }),
  replaceView: () => ({ body: { name: "early", page: "runs", query: "status:failed" }, headers: { "if-match": '"r1"' } }),
};

/** Where a second request differs from the example, as another one under the same key would. */
const differentBodies: { readonly [N in RouteName]?: object } = {
  startRun: { clientId: "another" },
  replayRun: { version: "draft" },
  rebindRun: { mode: "switch" },
  rebindSchedulerRun: { mode: "drain" },
  changeRuns: { action: "retry" },
  tellWorker: { payload: { hello: 2 } },
  commandWorker: { version: "3.0.0" },
  saveWorkflow: { metadata: { name: "another" } },
  importWorkflow: { previewImage: "data:image/png;base64,AAAA" },
  publishVersion: { note: "another" },
  publishWorkflow: { changelog: "another" },
  cloneWorkflowPackage: { workflowName: "another" },
  createUser: { displayName: "Another" },
  createUpload: { filename: "another" },
  createResourceGrant: { resourceKey: "another" },
  createView: { name: "another" },
  addPackageKey: { name: "another" },
  installPackage: { allowOlder: false },
  startRollout: { observeMs: 2_000 },
  stopRollout: { rollback: true },
  rollbackPackage: { pool: "default" },
  enrolWorker: { name: "another" },
  signWorker: { status: "another" },
  setUserPassword: { password: "yet another long password" },
  addUserRole: { role: "workflow.viewer" },
};

export function differentRequest(name: RouteName, samples: TenantSamples): TestRequest | null {
  if (name === "publishPackage") return { body: otherPackageForm(samples) };
  const { body } = exampleRequest(name, samples);
  if (name === "createResource") return { body: form("other bytes") };
  const difference = differentBodies[name] ?? (hasReason(body) ? { reason: "another" } : null);
  return difference === null ? null : { body: { ...(body as object), ...difference } };
}

/** Null where there are no samples: then only whether there is another request counts. */
const otherPackageForm = ({ packageSigningKey, packageName }: TenantSamples): Buffer | null =>
  packageSigningKey === undefined ? null : packageForm(packageSigningKey, packageName, "1.2.0");

const hasReason = (body: unknown): boolean => typeof body === "object" && body !== null && "reason" in body;

export const exampleRequest = (name: RouteName, samples: TenantSamples): TestRequest => examples[name]?.(samples) ?? {};

/** Routes that are about a run which has ended. */
const routesOfEndedRuns: ReadonlySet<RouteName> = new Set(["retryRun", "replayRun"]);

/** Which of the packages a route is about. */
function packageSampleOf(name: RouteName): "packageName" | "rolloutPackageName" | "heldPackageName" {
  if (name === "rollbackPackage") return "heldPackageName";
  return routes[name].path.includes("{rolloutId}") ? "rolloutPackageName" : "packageName";
}

/** The method, and the path with things in it, or with other words in their place. */
export function exampleUrl(
  name: RouteName,
  samples: TenantSamples,
  word = (value: string) => encodeURIComponent(value),
): [string, string] {
  const route: Route = routes[name];
  const valueOf = (key: string): string => {
    const own = key === "runId" && routesOfEndedRuns.has(name) ? "failedRunId" : key;
    return String(samples[(own === "packageName" ? packageSampleOf(name) : own) as keyof TenantSamples]);
  };
  return [route.method, route.path.replaceAll(/\{(\w+)\}/g, (_, key: string) => word(valueOf(key)))];
}
