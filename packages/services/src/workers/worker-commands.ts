// Commands to workers: drain, kick, packages, rebind and vendor frames. A command has an id; with an idempotency key it is carried out once.

import type { Command, IdempotencyKey, StoreReader, WorkerCommandRecord, WorkerRow } from "@astraflow/engine";
import { canonicalJson, compareVersions } from "@astraflow/graph";
import { Fault, fault, type readExtensionRequest, type WorkerCommand } from "@astraflow/protocol";
import { auditRefusal } from "../documents/audit.ts";
import { isConflict, readDocument, registerIdempotencyKey } from "../documents/documents.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import { actorOf, type Caller } from "../identity/caller.ts";
import { isSameCommand } from "../presentation/command-view.ts";
import { instanceIdOf, workerQueueOf } from "../presentation/worker-view.ts";
import { vendorRelayLimits } from "./vendor-frame-relay.ts";
import { findWorker, preferOnline, workerNotFound } from "./worker-finder.ts";
import type { WorkerServices } from "./worker-services.ts";

/** Attempts of a worker that one rebind moves. */
const rebindAttemptsMax = 200;

type CommandSummary = Pick<WorkerCommandRecord, "workerName" | "sentAt">;

export interface SentCommand {
  readonly id: string;
  readonly command: CommandSummary;
  readonly repeated: boolean;
}

/** A command that a caller wants carried out. */
interface WantedCommand {
  /** The caller's idempotency key. */
  readonly key: string | null;
  /** Whether this command is the result of the same request. */
  readonly matches: (command: WorkerCommandRecord) => boolean;
  /** Its id if there is no key. */
  readonly newId: () => string;
  /** Null: the engine knows the key of such a command already. */
  readonly execute: (id: string, idempotencyKey: IdempotencyKey | null) => Promise<CommandSummary | null>;
}

export async function findCommand(
  reader: StoreReader,
  tenant: string,
  id: string,
): Promise<{ readonly body: WorkerCommandRecord | null; readonly head: number }> {
  const { doc, head } = await readDocument(reader, tenant, "command", id);
  return { body: doc === null ? null : (JSON.parse(doc.body) as WorkerCommandRecord), head };
}

/** Carries the command out, unless it was carried out before with the caller's key. */
async function runOnce(
  { reader, digest }: WorkerServices,
  tenant: string,
  { key, matches, newId, execute }: WantedCommand,
): Promise<SentCommand> {
  const findRepeat = async (id: string): Promise<SentCommand | null> => {
    const { body } = await findCommand(reader, tenant, id);
    if (body === null) return null;
    if (matches(body)) return { id, command: body, repeated: true };
    throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for another command; use a new key");
  };
  const id = key === null ? newId() : digest(canonicalJson({ of: "command", tenant, key }));
  const earlier = key === null ? null : await findRepeat(id);
  if (earlier !== null) return earlier;
  try {
    // The engine remembers that the key belongs to a command; the command itself tells whether it is this one.
    const command = await execute(id, key === null ? null : { key, digest: id });
    if (command !== null) return { id, command, repeated: false };
  } catch (why) {
    // Another request with the same key was faster.
    const other = isConflict(why) && key !== null ? await findRepeat(id) : null;
    if (other === null) throw why;
    return other;
  }
  const before = await findRepeat(id);
  if (before !== null) return before;
  throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for a command that has been deleted; use a new key");
}

type WorkerOperation = Extract<Command, { type: "worker.drain" | "worker.kick" }>;

/** Takes a worker out of service, or back into it. */
export const setDraining = (workers: WorkerServices, caller: Caller, idOrName: string, on: boolean, key: string | null) =>
  operateWorker(workers, caller, idOrName, key, (worker) => ({ type: "worker.drain", ...actorOf(caller), worker, on }));

/** Ends the session of a worker. */
export const kickWorker = (workers: WorkerServices, caller: Caller, idOrName: string, reason: string, key: string | null) =>
  operateWorker(workers, caller, idOrName, key, (worker) => ({ type: "worker.kick", ...actorOf(caller), worker, reason }));

async function operateWorker(
  workers: WorkerServices,
  caller: Caller,
  idOrName: string,
  key: string | null,
  operationOn: (worker: string) => WorkerOperation,
): Promise<SentCommand> {
  const { tenant } = caller.identity;
  const operation = operationOn((await findWorker(workers.reader, tenant, idOrName, 0)).worker.id);
  return runOnce(workers, tenant, {
    key,
    matches: ({ worker, order }) => worker === operation.worker && isSameCommand(order, commandBodyOf(operation)),
    newId: () => caller.requestId,
    execute: (id, idempotencyKey) =>
      executeOperation(workers, { ...operation, command: id, ...(idempotencyKey !== null && { ask: idempotencyKey }) }),
  });
}

async function executeOperation(workers: WorkerServices, operation: WorkerOperation): Promise<CommandSummary | null> {
  const { engineClient, reader, environment } = workers;
  const { tenant, worker: id } = operation;
  const answer = await requestOfWorker(engineClient, operation).then(
    (body) => {
      logOperation(workers, operation, "OK");
      return body;
    },
    (why: unknown) => {
      logOperation(workers, operation, why instanceof Fault ? why.code : "E.INTERNAL");
      throw why;
    },
  );
  if (answer.of !== "worker") throw fault("E.INTERNAL", `${operation.type} was answered with ${answer.of}`);
  if (answer.repeated === true) return null;
  const { worker } = await reader.page({ page: "worker", tenant, worker: id, limit: 0 });
  return { workerName: worker?.name ?? instanceIdOf(id), sentAt: answer.at ?? environment.clock.now() };
}

/** Logged once its outcome is known. */
function logOperation({ environment }: WorkerServices, operation: WorkerOperation, code: string): void {
  const { tenant, worker, by } = operation;
  const event = operation.type === "worker.drain" && !operation.on ? "worker.undrain" : operation.type;
  const reason = operation.type === "worker.kick" ? { reason: operation.reason } : {};
  environment.log({ level: "info", event, audit: true, tenant, worker, by, ...reason, code });
}

function commandBodyOf(operation: WorkerOperation): WorkerCommandRecord["order"] {
  if (operation.type === "worker.kick") return { type: "kick", reason: operation.reason };
  return { type: operation.on ? "drain" : "undrain" };
}

/** Sends the engine a command about a worker; a worker that is missing or another tenant's gets the same message. */
function requestOfWorker(
  engineClient: EngineClient,
  command: Extract<Command, { worker: string }>,
): ReturnType<EngineClient["request"]> {
  return engineClient.request(command).catch((why: unknown) => {
    throw why instanceof Fault && why.code === "E.NOT_FOUND" ? workerNotFound(instanceIdOf(command.worker)) : why;
  });
}

/** A command with everything filled in. */
type CompleteCommand = Extract<WorkerCommandRecord["order"], { type: WorkerCommand["type"] }>;

interface TargetWorker {
  readonly worker: WorkerRow;
  readonly workers: readonly WorkerRow[];
}

/** Drains a worker, changes its packages, or moves its work to another one. */
export function sendWorkerCommand(
  services: WorkerServices,
  caller: Caller,
  idOrName: string,
  command: WorkerCommand,
  key: string | null,
): Promise<SentCommand> {
  const { reader, environment } = services;
  const { tenant } = caller.identity;
  return runOnce(services, tenant, {
    key,
    // Compared with the request: the worker of this name, and the newest version, may have changed since.
    matches: ({ worker, workerName, order }) =>
      (workerName === idOrName || instanceIdOf(worker) === idOrName) && isSameCommand(order, withVersionOf(command, order)),
    newId: () => environment.ids.next(),
    async execute(id, idempotencyKey) {
      const target = await findTarget(reader, tenant, idOrName);
      const complete = await completeCommand(reader, tenant, command);
      if (!(await executeCommand(services, caller, target, complete, { id, ask: idempotencyKey }))) return null;
      const { body } = await findCommand(reader, tenant, id);
      return body ?? { workerName: target.worker.name, sentAt: environment.clock.now() };
    },
  });
}

/** By name or instance id; of several of one name, one that is online. */
async function findTarget(reader: StoreReader, tenant: string, idOrName: string): Promise<TargetWorker> {
  const { items: workers } = await reader.page({ page: "workers", tenant });
  const worker = preferOnline(workers.filter(({ id, name }) => name === idOrName || instanceIdOf(id) === idOrName));
  if (worker === undefined) throw workerNotFound(idOrName);
  return { worker, workers };
}

/** False: it was carried out before with this key. */
async function executeCommand(
  services: WorkerServices,
  caller: Caller,
  target: TargetWorker,
  command: CompleteCommand,
  { id, ask }: { readonly id: string; readonly ask: IdempotencyKey | null },
): Promise<boolean> {
  const { engineClient } = services;
  const fields = { ...actorOf(caller), worker: target.worker.id };
  if (command.type === "rebind") {
    const outcome = await rebindWorker(services, caller, target, command.queue, ask);
    await engineClient.request({ type: "worker.noted", ...fields, id, order: command, ...outcome });
    return true;
  }
  const answer = await (command.type === "drain"
    ? engineClient.request({ type: "worker.drain", ...fields, on: true, command: id, ask })
    : engineClient.request({ type: "worker.order", ...fields, id, order: command, ask }));
  return !("repeated" in answer);
}

/** Attempts that the worker holds end there; what follows in those runs goes to the worker of the queue. */
async function rebindWorker(
  { engineClient, reader }: WorkerServices,
  caller: Caller,
  { worker, workers }: TargetWorker,
  queue: string,
  idempotencyKey: IdempotencyKey | null,
): Promise<Pick<Extract<Command, { type: "worker.noted" }>, "error" | "details">> {
  const audit = { action: "worker.rebind", targetType: "worker", target: instanceIdOf(worker.id), data: { queue } };
  const successor = await auditRefusal(engineClient, caller, audit, () => {
    const found = workers.find(({ id }) => workerQueueOf(id) === queue);
    if (found !== undefined) return found;
    throw fault("E.REQUEST.INVALID", "body.queue is not the queue of a worker here; the list of workers shows their queues", {
      path: "body.queue",
    });
  });
  // Many engine commands carry it out, so the key is registered before the first of them.
  await registerIdempotencyKey(engineClient, caller, idempotencyKey);
  if (successor.id === worker.id) return { error: null, details: { attempts: 0 } };
  const query = { tenant: caller.identity.tenant, worker: worker.id, limit: rebindAttemptsMax };
  const { held } = await reader.page({ page: "worker", ...query });
  const outcomes = held.map(({ id, run }) =>
    engineClient.request({ type: "run.rebind", ...actorOf(caller), run, node: id, worker: successor.id, mode: "drain" }).then(
      () => null,
      (why: unknown) => ({ task: id, code: why instanceof Fault ? why.code : "E.INTERNAL" }),
    ),
  );
  const refused = (await Promise.all(outcomes)).filter((one) => one !== null);
  const [first] = refused;
  if (first === undefined) return { error: null, details: { attempts: held.length } };
  const message = `${refused.length} of ${held.length} attempts could not be moved from worker ${worker.name} to ${successor.name}`;
  return { error: { code: first.code, message }, details: { attempts: held.length, refused } };
}

/** A missing version means the newest that is known. */
async function completeCommand(reader: StoreReader, tenant: string, command: WorkerCommand): Promise<CompleteCommand> {
  if (command.type === "pkg.uninstall") return { ...command, version: command.version ?? null };
  if (command.type !== "pkg.install") return command;
  if (command.version !== undefined) return { ...command, version: command.version };
  const prefix = `${command.name}/`;
  const { items } = await reader.page({ page: "docs", tenant, collection: "package", prefix, limit: 1_000 });
  const version = items
    .map(({ id }) => id.slice(id.lastIndexOf("/") + 1))
    .sort(compareVersions)
    .at(-1);
  if (version !== undefined) return { ...command, version };
  throw fault("E.REQUEST.INVALID", `no version of ${command.name} is known; set body.version`, { path: "body.version" });
}

/** The command with the version of an earlier one, if the caller gave none. */
function withVersionOf(command: WorkerCommand, before: WorkerCommandRecord["order"]): CompleteCommand {
  if (command.type === "pkg.uninstall") return { ...command, version: command.version ?? null };
  if (command.type !== "pkg.install") return command;
  return { ...command, version: command.version ?? (before.type === "pkg.install" ? before.version : "") };
}

type VendorFrameRequest = Exclude<ReturnType<typeof readExtensionRequest>, Fault>;

/** Sends a vendor frame to a worker; returns the id of the frame. */
export async function sendVendorFrame(
  { engineClient, environment, digest }: WorkerServices,
  caller: Caller,
  type: string,
  request: VendorFrameRequest,
  key: string | null,
): Promise<string> {
  const { workerId, corr } = request;
  const payload = JSON.stringify(request.payload);
  if (Buffer.byteLength(payload) > vendorRelayLimits.frameBytesMax)
    throw fault("E.REQUEST.TOO_LARGE", `a payload may have ${vendorRelayLimits.frameBytesMax} bytes as JSON`);
  const { tenant, user } = caller.identity;
  // The key is not stored: the frame's id is derived from it, and a worker accepts a frame id once.
  const id = key === null ? `ext-${environment.ids.next()}` : `ext-${digest(canonicalJson({ tenant, type, key, request }))}`;
  await requestOfWorker(engineClient, {
    type: "worker.tell",
    tenant,
    by: user,
    worker: `${tenant}/${workerId}`,
    frame: { type, id, corr: corr ?? null, payload },
  });
  return id;
}
