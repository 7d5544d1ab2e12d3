// The program of the thread for long requests: the same REST API and services as on the doors' thread, with a reader of its own. Commands for
// the engine go through the doors' thread. Started by request-thread.ts.

import { parentPort, workerData } from "node:worker_threads";
import { createMetricsRegistry, RestApi, toAuthorizedRequest } from "@astraflow/doors";
import { Fault, omitUndefined } from "@astraflow/protocol";
import {
  createDocumentBlobStore,
  createFolderBlobStore,
  createServices,
  EngineClient,
  type ServiceEnvironment,
} from "@astraflow/services";
import { digestText } from "../platform/ids-and-random.ts";
import { createTimers } from "../platform/service-environment.ts";
import { openStoreReader } from "../store/store-factory.ts";
import type { MessageFromRequestThread, MessageToRequestThread, RequestThreadData, ThreadTask } from "./request-thread.ts";

const data = workerData as RequestThreadData;
const send = (message: MessageFromRequestThread): void => parentPort?.postMessage(message);

const log: ServiceEnvironment["log"] = (line) => send({ type: "log", line });
const environment: ServiceEnvironment = { ...createTimers(), isDebug: data.isDebug, log };
const engineClient = new EngineClient((items) => send({ type: "commands", items }), {
  report: (problem) => log({ level: "error", event: "door.bug", problem: describe(problem) }),
});
const reader = openStoreReader(data.store);
const options = {
  engineClient,
  reader,
  environment,
  blobs: {
    local: createFolderBlobStore({ folder: data.blobDir, ids: environment.ids }),
    db: createDocumentBlobStore({ engineClient, reader }),
  },
  digest: digestText,
  ackDeadlineMs: data.ackDeadlineMs,
  schemaModeOf: (tenant: string) => data.tenants[tenant]?.schemaMode ?? data.schemaMode,
  gauge: () => null,
  metrics: createMetricsRegistry(),
  unready: () => null,
  // Who sends a request has been checked before it came here.
  authenticate: () => null,
};
const services = createServices({ ...options, hasBulkPolling: false });
const api = new RestApi(options, services);

async function carryOut(task: ThreadTask): Promise<unknown> {
  if (task.of === "archive") return services.checkArchive(task.archive);
  if (task.of === "change") return services.runs.changeRun(...task.change);
  const { stream, bytes, ...response } = await api.respond(task.request.route, toAuthorizedRequest(task.request));
  if (stream !== undefined || bytes !== undefined) throw new Error(`${task.request.route} answers with a stream`);
  return response;
}

async function answer(task: ThreadTask): Promise<void> {
  try {
    send({ type: "done", result: await carryOut(task) });
  } catch (why) {
    if (!(why instanceof Fault)) return send({ type: "failed", problem: describe(why) });
    const { code, message, details, cause } = why;
    // A fault with a cause is a bug of ours: the doors' thread logs it and says no more than that.
    if (cause !== undefined) send({ type: "failed", problem: describe(why) });
    else send({ type: "refused", fault: { code, message, ...omitUndefined({ details }) } });
  }
}

function describe(problem: unknown): string {
  if (!(problem instanceof Error)) return String(problem);
  const { stack = problem.message, cause } = problem;
  return cause === undefined ? stack : `${stack}\ncaused by ${describe(cause)}`;
}

parentPort?.on("message", (message: MessageToRequestThread) => {
  if (message.type === "effects") engineClient.handleEffects(message.effects);
  else void answer(message.task);
});
