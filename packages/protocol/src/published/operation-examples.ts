// An example of every operation, for the OpenAPI document: its parameters, its body, and what a caller of a route without either gets. All are
// about one small workflow and one run of it. Tests send them to a server.

import type { RouteName } from "../rest/routes/route-table.ts";

const workflowId = "1878297d-f049-4a4e-b6d6-9d4a45cb8301";
const nodeId = "aec18da0-ac82-4239-96d8-8bdd027a8115";
const runId = "01a1ec70-f95e-7001-96e6-84fd8e27c339";
const resourceId = "iehO6pJxTUsVG3XkM8SWqE";
const userId = "Y2hhbmdlIG1lIHNvb24";
const instant = "2026-01-31T12:00:00.000Z";

const workflow = {
  id: workflowId,
  schemaVersion: "2025-10",
  metadata: { name: "Greet" },
  nodes: [
    {
      id: nodeId,
      type: "demo.text",
      package: { name: "demo", version: "1.0.0" },
      label: "Say hello",
      position: { x: 80, y: 160 },
      parameters: { text: "hello world" },
    },
  ],
  edges: [],
} as const;

/** By name of the parameter. Cursors have none: what a page says is the only one that is right. */
const parameterExamples: Readonly<Record<string, unknown>> = {
  bulkId: "S3vq0mYt2bUBk1rHqk6Y7w",
  commandId: "eCq0mLAn5F8JMzhdivYtQg",
  installId: "Xo0mYt2bUBk1rHqk6Y7w3S",
  keyId: "c1b2a3948576605142332415a6978b8c",
  grantId: "g6wQm3rYb1Tz0cVh8kD2aX",
  nodeId,
  packageId: "greet",
  packageName: "demo",
  packageVersion: "1.0.0",
  partNumber: 0,
  resourceId,
  resourcePath: "resources/model.bin",
  role: "run.viewer",
  rolloutId: "R3vq0mYt2bUBk1rHqk6Y8a",
  runId,
  taskId: `${runId}.0`,
  type: "ext.vendor.acme.ping",
  uploadId: "cSRan6rmQ8B36WazH6F84gBU",
  userId,
  version: 1,
  viewId: "tfLVSz5FBAxK9Qif8puORX",
  workerId: "worker-1",
  workerName: "worker-1",
  workflowId,
  limit: 50,
  since: "2026-01-31T12:00:00Z",
  "If-Match": '"r1"',
  "Idempotency-Key": "order-4711",
  Range: "bytes=0-1023",
};
/** Where a route means something else by the name, or has a parameter that is its own. */
const parametersOfRoutes: { readonly [N in RouteName]?: Readonly<Record<string, unknown>> } = {
  listRuns: { status: "failed,cancelled" },
  getRunNode: { path: "parameters" },
  getRunLogs: { limit: 200 },
  getLedger: { after: 0, limit: 10_000 },
  listDeadLetters: { status: "open" },
  listWorkers: { connected: true },
  importWorkflow: { ids: "renew" },
  diffWorkflow: { from: "1", to: "draft" },
  getPackage: { version: "1.0.0" },
  searchNodes: { q: "text" },
  listViews: { page: "runs" },
  streamEvents: { topics: "run,node.result" },
  getKedaMetric: { package: "demo" },
};

/** Undefined: none. */
export const parameterExampleOf = (route: RouteName, parameter: string): unknown =>
  parametersOfRoutes[route]?.[parameter] ?? parameterExamples[parameter];

const password = "a sentence that nobody guesses";
const steering = { reason: "The feed was down; it is back." };
const rebinding = { node: nodeId, mode: "drain" };

export const requestExamples: { readonly [N in RouteName]?: unknown } = {
  startRun: { workflow, clientId: "browser-7", labels: { city: "Oslo" } },
  retryRun: steering,
  replayRun: { from: nodeId, version: "same" },
  rebindRun: rebinding,
  rebindSchedulerRun: rebinding,
  skipNode: steering,
  retryNode: steering,
  requeueDeadLetter: steering,
  dismissDeadLetter: steering,
  changeRuns: { action: "cancel", filter: { workflowId, status: ["queued", "running"] }, reason: "Wrong price list." },
  kickWorker: { reason: "It hangs." },
  tellWorker: { workerId: "worker-1", payload: { hello: 1 } },
  enrolWorker: {
    workerId: "worker-1",
    capabilities: { concurrency: { maxParallel: 2 }, tags: { gpu: "no" } },
    packages: [{ name: "demo", version: "1.0.0" }],
  },
  signWorker: { workerId: "worker-1", status: { healthy: true } },
  commandWorker: { type: "pkg.install", name: "demo", version: "1.1.0", url: "https://packages.example/demo-1.1.0.zip" },
  saveWorkflow: workflow,
  importWorkflow: { format: "astraflow.workflow/1", workflow, versions: [] },
  validateWorkflow: workflow,
  replaceWorkflow: { ...workflow, metadata: { name: "Greet again" } },
  putWorkflowPreview: { previewImage: "data:image/png;base64,iVBORw0KGgo=" },
  editDraft: { base: 1, edits: [{ op: "setNode", id: nodeId, path: "/label", value: "Say hello twice" }] },
  publishVersion: { note: "The first one." },
  rollbackWorkflow: { version: 1 },
  publishWorkflow: { version: "1.1.0", visibility: "internal", changelog: "Greets again." },
  cloneWorkflowPackage: { workflowName: "My greeting" },
  publishPackage: { file: "The bytes of the archive.", signature: "The signature of the archive, as JSON." },
  putPackageResource: { file: "The bytes of the file." },
  addPackageKey: { publicKey: "y9xU4Q6KzL6pj9etYKn5M0hixLr16LbEwMN+mnRpNzM=", name: "Release key of Acme", packages: ["acme.*"] },
  installPackage: { version: "1.0.0", pool: "default" },
  startRollout: { version: "1.1.0", phases: [1, "50%", "100%"], failures: { max: 3 }, observeMs: 300_000 },
  stopRollout: { rollback: true },
  rollbackPackage: { to: "1.0.0" },
  login: { username: "anna", password },
  createUser: { username: "berta", password, displayName: "Berta", roles: ["workflow.editor"] },
  changeOwnUser: { displayName: "Anna" },
  setOwnPassword: { currentPassword: password, password: "another sentence that nobody guesses" },
  setUserPassword: { password },
  addUserRole: { role: "run.viewer" },
  setUserStatus: { isActive: false },
  createResource: { file: "The bytes of the file.", filename: "greeting.txt", mimeType: "text/plain" },
  createUpload: { filename: "film.mp4", sizeBytes: 4_000_000, mimeType: "video/mp4" },
  putUploadPart: { file: "The bytes of the part." },
  createResourceGrant: { resourceId, packageName: "demo", resourceKey: "greeting", scope: "workflow", workflowId },
  createView: { name: "Failed today", page: "runs", query: { status: "failed" } },
  replaceView: { name: "Failed", page: "runs", query: { status: "failed,cancelled" }, shared: true },
};

const started = { runId, status: "queued", definitionHash: "5Hq0mYt2bUBk1rHqk6Y7w2", clientId: "browser-7", createdAt: instant };
const user = { userId, username: "berta", displayName: "Berta", roles: ["workflow.editor"], isActive: true };

export const responseExamples: { readonly [N in RouteName]?: unknown } = {
  startRun: started,
  saveWorkflow: { workflowId, revision: 1 },
  createUser: { ...user, asOf: 12 },
  getOwnUser: { ...user, asOf: 12 },
  getScaling: {
    queued: 2,
    running: 1,
    isPartial: false,
    slots: 4,
    free: 3,
    workers: { online: 1, away: 0, lost: 0, left: 0, saturated: 0, draining: 0 },
    wantedSlots: 3,
    asOf: 12,
  },
  listAlerts: { items: [], isPartial: false, asOf: 12 },
  listPackageKeys: { items: [], nextCursor: null, asOf: 12 },
  listQueues: { items: [], asOf: 12 },
  getOpenapi: { openapi: "3.1.0" },
  getHealth: { ok: true },
  getReadiness: { ok: true, checks: { store: true } },
};
/** Of answers that are no JSON. */
export const textExamples: { readonly [N in RouteName]?: string } = {
  getMetrics: "# TYPE astraflow_tasks_ready gauge\nastraflow_tasks_ready 2\n",
};
