// Commands to workers: drain, kick, packages, rebind and vendor frames. A command has an id; with an idempotency key it is carried out once.

import type { AnswerBody, Command, IdempotencyKey, WorkerCommandRecord, WorkerRow } from "@astraflow/engine";
import { canonicalJson, compareVersions } from "@astraflow/graph";
import { Fault, fault, omitUndefined, packageOriginProblem, type RouteBody, type WorkerCommand } from "@astraflow/protocol";
import { auditRefusal, isConflict, isNotFound, notFound, readDocument, registerIdempotencyKey } from "../documents/documents.ts";
import { expectAnswer } from "../environment/engine-client.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import { type InstallOrder, type PackageInstalls, toSignatureClaim } from "../packages/package-installs.ts";
import { readWorkerDescription } from "../presentation/worker-description.ts";
import { instanceIdOf, workerQueueOf } from "../presentation/worker-view.ts";
import { vendorRelayLimits } from "./vendor-frame-relay.ts";
import { findWorker, preferOnline } from "./worker-reader.ts";

/** Attempts of a worker that one rebind moves. */
const rebindAttemptsMax = 200;

type CommandOrder = WorkerCommandRecord["order"];
/** A command with everything filled in. */
type CompleteCommand = Extract<CommandOrder, { type: WorkerCommand["type"] }>;
type PackageInstallCommand = Extract<WorkerCommand, { type: "pkg.install" }>;
type CommandSummary = Pick<WorkerCommandRecord, "workerName" | "sentAt">;
type WorkerOperation = Extract<Command, { type: "worker.drain" | "worker.kick" }>;
type VendorFrameRequest = RouteBody<"tellWorker">;

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
  readonly execute: (id: string, ask: IdempotencyKey | null) => Promise<CommandSummary | null>;
}

interface TargetWorker {
  readonly worker: WorkerRow;
  readonly workers: readonly WorkerRow[];
}

export interface WorkerCommandsContext extends ServiceContext {
  /** Origins that packages may be installed from although they are not public https addresses; absent: none. */
  readonly packageOrigins?: readonly string[];
}

export class WorkerCommands {
  readonly #context: WorkerCommandsContext;
  readonly #installs: PackageInstalls;

  constructor(context: WorkerCommandsContext, installs: PackageInstalls) {
    this.#context = context;
    this.#installs = installs;
  }

  async find(tenant: string, id: string): Promise<{ readonly body: WorkerCommandRecord | null; readonly head: number }> {
    const { doc, head } = await readDocument(this.#context.reader, tenant, "command", id);
    return { body: doc === null ? null : (JSON.parse(doc.body) as WorkerCommandRecord), head };
  }

  /** Of the command that is carried out under this idempotency key. */
  idForKey(tenant: string, key: string): string {
    return this.#context.digest(canonicalJson({ of: "command", tenant, key }));
  }

  /** From now on no command is sent under this key; one that was sent before stays. */
  async closeKey(caller: Caller, key: string): Promise<void> {
    const ask = { key, digest: this.idForKey(caller.identity.tenant, key) };
    try {
      await registerIdempotencyKey(this.#context.engineClient, caller, ask);
    } catch (why) {
      // A command was sent under it.
      if (!(why instanceof Fault && why.code === "E.IDEMPOTENCY.MISMATCH")) throw why;
    }
  }

  /** Takes a worker out of service, or back into it. */
  setDraining(caller: Caller, idOrName: string, on: boolean, key: string | null): Promise<SentCommand> {
    return this.#operate(caller, idOrName, key, (worker) => ({ type: "worker.drain", ...actorOf(caller), worker, on }));
  }

  /** Ends the session of a worker. */
  kick(caller: Caller, idOrName: string, reason: string, key: string | null): Promise<SentCommand> {
    return this.#operate(caller, idOrName, key, (worker) => ({ type: "worker.kick", ...actorOf(caller), worker, reason }));
  }

  /** Drains a worker, changes its packages, or moves its work to another one. */
  send(caller: Caller, idOrName: string, command: WorkerCommand, key: string | null): Promise<SentCommand> {
    const { environment } = this.#context;
    const { tenant } = caller.identity;
    return this.#runOnce(tenant, {
      key,
      // Compared with the request: the worker of this name, and the newest version, may have changed since.
      matches: ({ worker, workerName, order }) =>
        (workerName === idOrName || instanceIdOf(worker) === idOrName) && isSameRequest(command, order),
      newId: () => environment.ids.next(),
      execute: async (id, ask) => {
        const target = await this.#findTarget(tenant, idOrName);
        const complete =
          command.type === "pkg.install"
            ? {
                ...(await this.#completeInstall(caller, target.worker, command)),
                ...omitUndefined({ deadlineMs: command.deadlineMs }),
              }
            : toOrder(command);
        if (!(await this.#execute(caller, target, complete, id, ask))) return null;
        const { body } = await this.find(tenant, id);
        return body ?? { workerName: target.worker.name, sentAt: environment.clock.now() };
      },
    });
  }

  /** Sends a vendor frame to a worker; returns the id of the frame. */
  async sendVendorFrame(caller: Caller, type: string, request: VendorFrameRequest, key: string | null): Promise<string> {
    const { environment, digest } = this.#context;
    const { workerId, corr = null } = request;
    const payload = JSON.stringify(request.payload);
    if (Buffer.byteLength(payload) > vendorRelayLimits.frameBytesMax)
      throw fault("E.REQUEST.TOO_LARGE", `a payload may have ${vendorRelayLimits.frameBytesMax} bytes as JSON`);
    const { tenant, user: by } = caller.identity;
    // The key is not stored: the frame's id is derived from it, and a worker accepts a frame id once.
    const id = `ext-${key === null ? environment.ids.next() : digest(canonicalJson({ tenant, type, key, request }))}`;
    const frame = { type, id, corr, payload };
    await this.#request({ type: "worker.tell", tenant, by, worker: `${tenant}/${workerId}`, frame });
    return id;
  }

  /** Carries the command out, unless it was carried out before with the caller's key. */
  async #runOnce(tenant: string, { key, matches, newId, execute }: WantedCommand): Promise<SentCommand> {
    const findRepeat = async (id: string): Promise<SentCommand | null> => {
      const { body } = await this.find(tenant, id);
      if (body === null) return null;
      if (matches(body)) return { id, command: body, repeated: true };
      throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for another command; use a new key");
    };
    const id = key === null ? newId() : this.idForKey(tenant, key);
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

  async #operate(caller: Caller, idOrName: string, key: string | null, operationOn: (worker: string) => WorkerOperation) {
    const { tenant } = caller.identity;
    const operation = operationOn((await findWorker(this.#context.reader, tenant, idOrName, 0)).worker.id);
    return this.#runOnce(tenant, {
      key,
      matches: ({ worker, order }) => worker === operation.worker && isSameCommand(order, commandBodyOf(operation)),
      newId: () => caller.requestId,
      execute: (id, ask) => this.#executeOperation({ ...operation, command: id, ...(ask !== null && { ask }) }),
    });
  }

  async #executeOperation(operation: WorkerOperation): Promise<CommandSummary | null> {
    const { reader, environment } = this.#context;
    const { tenant, worker: id } = operation;
    const answer = await this.#request(operation).catch((why: unknown) => {
      this.#logOperation(operation, why instanceof Fault ? why.code : "E.INTERNAL");
      throw why;
    });
    this.#logOperation(operation, "OK");
    const { repeated, at } = expectAnswer(answer, "worker");
    if (repeated === true) return null;
    const { worker } = await reader.page({ page: "worker", tenant, worker: id, limit: 0 });
    return { workerName: worker?.name ?? instanceIdOf(id), sentAt: at ?? environment.clock.now() };
  }

  /** Logged once its outcome is known. */
  #logOperation(operation: WorkerOperation, code: string): void {
    const { tenant, worker, by } = operation;
    const event = operation.type === "worker.drain" && !operation.on ? "worker.undrain" : operation.type;
    const reason = operation.type === "worker.kick" ? { reason: operation.reason } : {};
    this.#context.environment.log({ level: "info", event, audit: true, tenant, worker, by, ...reason, code });
  }

  /** Sends the engine a command about a worker; a worker that is missing or another tenant's gets the same message. */
  #request(command: Extract<Command, { worker: string }>): Promise<AnswerBody> {
    return this.#context.engineClient.request(command).catch((why: unknown) => {
      throw isNotFound(why) ? notFound("worker", instanceIdOf(command.worker)) : why;
    });
  }

  /** By name or instance id; of several of one name, one that is online. */
  async #findTarget(tenant: string, idOrName: string): Promise<TargetWorker> {
    const { items: workers } = await this.#context.reader.page({ page: "workers", tenant });
    const worker = preferOnline(workers.filter(({ id, name }) => name === idOrName || instanceIdOf(id) === idOrName));
    if (worker === undefined) throw notFound("worker", idOrName);
    return { worker, workers };
  }

  /** Where nothing else is named the archive is the scheduler's own. What is refused is in the audit. */
  #completeInstall(caller: Caller, worker: WorkerRow, command: PackageInstallCommand): Promise<InstallOrder> {
    const { engineClient } = this.#context;
    const { tenant } = caller.identity;
    const { name } = command;
    const audit = { action: "pkg.install", targetType: "worker", target: instanceIdOf(worker.id), data: { name } };
    return auditRefusal(engineClient, caller, audit, async () => {
      if (command.url !== undefined) return this.#completeDownload(tenant, { ...command, url: command.url });
      if (command.signature !== undefined)
        throw fault("E.REQUEST.INVALID", "body.signature goes with body.url; what is published here has its own", {
          path: "body.signature",
        });
      const order = await this.#installs.plan(tenant, { ...command, version: command.version });
      checkCanFetch(worker, order);
      return order;
    });
  }

  /** The worker would fetch it: from inside its network, with what its machine may reach. */
  async #completeDownload(tenant: string, command: PackageInstallCommand & { readonly url: string }): Promise<InstallOrder> {
    const problem = packageOriginProblem(command.url, this.#context.packageOrigins ?? []);
    if (problem !== null)
      throw fault(
        "E.PKG.PERMISSION",
        `body.url ${problem}; use a public https address, or let the operator allow the origin with --package-origin`,
        { path: "body.url" },
      );
    const { name, url, sha256, signature, allowOlder } = command;
    const version = command.version ?? (await this.#findNewestVersion(tenant, name));
    return {
      type: "pkg.install",
      name,
      version,
      url,
      ...omitUndefined({ sha256 }),
      ...(signature !== undefined && { signature: toSignatureClaim(signature) }),
      ...(allowOlder === true && { allowOlder }),
    };
  }

  /** The newest that the catalogue knows. */
  async #findNewestVersion(tenant: string, name: string): Promise<string> {
    const query = { page: "docs", tenant, collection: "package", prefix: `${name}/`, limit: 1_000 } as const;
    const { items } = await this.#context.reader.page(query);
    const versions = items.map(({ id }) => id.slice(id.lastIndexOf("/") + 1)).sort(compareVersions);
    const version = versions.at(-1);
    if (version !== undefined) return version;
    throw fault("E.NOT_FOUND", `no version of ${name} is known; set body.version`, { path: "body.version" });
  }

  /** False: it was carried out before with this key. */
  async #execute(caller: Caller, target: TargetWorker, command: CompleteCommand, id: string, ask: IdempotencyKey | null) {
    const { engineClient } = this.#context;
    const fields = { ...actorOf(caller), worker: target.worker.id };
    if (command.type === "rebind") {
      const outcome = await this.#rebind(caller, target, command.queue, ask);
      await engineClient.request({ type: "worker.noted", ...fields, id, order: command, ...outcome });
      return true;
    }
    const answer = await (command.type === "drain"
      ? engineClient.request({ type: "worker.drain", ...fields, on: true, command: id, ask })
      : engineClient.request({ type: "worker.order", ...fields, id, order: command, ask }));
    return !("repeated" in answer);
  }

  /** Attempts that the worker holds end there; what follows in those runs goes to the worker of the queue. */
  async #rebind(
    caller: Caller,
    { worker, workers }: TargetWorker,
    queue: string,
    ask: IdempotencyKey | null,
  ): Promise<Pick<Extract<Command, { type: "worker.noted" }>, "error" | "details">> {
    const { engineClient, reader } = this.#context;
    const audit = { action: "worker.rebind", targetType: "worker", target: instanceIdOf(worker.id), data: { queue } };
    const successor = await auditRefusal(engineClient, caller, audit, () => {
      const found = workers.find(({ id }) => workerQueueOf(id) === queue);
      if (found !== undefined) return found;
      throw fault("E.NOT_FOUND", "body.queue is not the queue of a worker here; the list of workers shows their queues", {
        path: "body.queue",
      });
    });
    // Many engine commands carry it out, so the key is registered before the first of them.
    await registerIdempotencyKey(engineClient, caller, ask);
    if (successor.id === worker.id) return { error: null, details: { attempts: 0 } };
    const query = { tenant: caller.identity.tenant, worker: worker.id, limit: rebindAttemptsMax };
    const { held } = await reader.page({ page: "worker", ...query });
    const fields = { type: "run.rebind", ...actorOf(caller), worker: successor.id, mode: "drain" } as const;
    const outcomes = held.map(({ id, run }) =>
      engineClient.request({ ...fields, run, node: id }).then(
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
}

const isSameCommand = (order: CommandOrder, other: CommandOrder): boolean => canonicalJson(order) === canonicalJson(other);

function commandBodyOf(operation: WorkerOperation): CommandOrder {
  if (operation.type === "worker.kick") return { type: "kick", reason: operation.reason };
  return { type: operation.on ? "drain" : "undrain" };
}

function toOrder(command: Exclude<WorkerCommand, PackageInstallCommand>): CompleteCommand {
  return command.type === "pkg.uninstall" ? { ...command, version: command.version ?? null } : command;
}

/** Whether a command is the result of a request for it: what the scheduler filled in does not count. */
function isSameRequest(command: WorkerCommand, order: CommandOrder): boolean {
  if (command.type !== "pkg.install" || order.type !== "pkg.install")
    return command.type !== "pkg.install" && isSameCommand(order, toOrder(command));
  const isFromHere = command.url === undefined;
  if (isFromHere !== (order.fromRepository === true)) return false;
  const { name, version = order.version, url = order.url, sha256, signature, allowOlder } = command;
  const requested = {
    ...{ type: "pkg.install", name, version, url },
    sha256: sha256 ?? (isFromHere ? order.sha256 : undefined),
    signature: isFromHere ? order.signature : signature && toSignatureClaim(signature),
    allowOlder: allowOlder === true ? true : undefined,
    fromRepository: order.fromRepository,
    deadlineMs: command.deadlineMs,
  };
  return canonicalJson(omitUndefined(requested)) === canonicalJson(order);
}

/** Workers of other generations know no repository. */
function checkCanFetch(worker: WorkerRow, { name, version, url }: InstallOrder): void {
  const { dialect } = readWorkerDescription(worker);
  if (url !== undefined || dialect === undefined || dialect === "v2") return;
  throw fault(
    "E.REQUEST.INVALID",
    `worker ${worker.name} cannot fetch ${name} ${version} from here without an address; set body.url, or start the scheduler with --public-url`,
    { path: "body.url" },
  );
}
