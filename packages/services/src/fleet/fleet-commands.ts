// Installs and removals on many workers, step by step: what was not sent yet is sent, what was sent is looked up. A command's id is made
// from the operation and the worker, so that a step that was cut off, or is made by two schedulers at once, sends each command once.

import type { WorkerCommandRecord } from "@astraflow/engine";
import { Fault, type FleetWorker, fault } from "@astraflow/protocol";
import type { ServiceContext } from "../environment/service-environment.ts";
import type { Caller } from "../identity/identity.ts";
import type { WorkerCommands } from "../workers/worker-commands.ts";
import { type FleetMember, hasEnded, hasTraceOf, holdsVersion, listFleet } from "./fleet-members.ts";

/** What every worker of a list is told. */
export interface FleetOrder {
  readonly action: "install" | "uninstall";
  readonly packageName: string;
  /** Null: every version, of an uninstall. */
  readonly version: string | null;
  readonly allowOlder?: boolean;
}

/** On whose behalf commands are sent, and what their ids are made from. */
export interface FleetOperation {
  readonly id: string;
  readonly caller: Caller;
}

/** Commands sent in one step; the document is written before the next one. */
const commandsPerStepMax = 100;

/** Failures of the store or engine, or of a worker that owes many answers: the next step tries again. */
const transientFaultCodes: ReadonlySet<string> = new Set(["E.STORE.BUSY", "E.OVERLOADED", "E.SHUTTING_DOWN", "E.INTERNAL"]);

export class FleetCommands {
  readonly #context: ServiceContext;
  readonly #commands: WorkerCommands;

  constructor(context: ServiceContext, commands: WorkerCommands) {
    this.#context = context;
    this.#commands = commands;
  }

  /** The workers as they are after one more step; the same list where nothing has changed. */
  async advance(operation: FleetOperation, order: FleetOrder, workers: readonly FleetWorker[]): Promise<readonly FleetWorker[]> {
    if (workers.every(hasEnded)) return workers;
    const known = await this.#lookUp(operation, order, workers, (worker) => !hasEnded(worker));
    const fleet = await listFleet(this.#context.reader, operation.caller.identity.tenant);
    const members = new Map(fleet.map((member) => [member.workerId, member]));
    let sendsLeft = commandsPerStepMax;
    const next: FleetWorker[] = [];
    for (const worker of known) {
      const isToSend = worker.status === "waiting" && sendsLeft > 0;
      if (isToSend) sendsLeft -= 1;
      next.push(isToSend ? await this.#send(operation, order, worker, members.get(worker.workerId)) : worker);
    }
    return next.every((worker, at) => worker === workers[at]) ? workers : next;
  }

  /**
   * The workers with every command that was sent to them, after which none is sent any more: another scheduler may have read the operation
   * before it was stopped, and be about to send.
   */
  async endSending(
    operation: FleetOperation,
    order: FleetOrder,
    workers: readonly FleetWorker[],
  ): Promise<readonly FleetWorker[]> {
    const isUnsent = ({ commandId }: FleetWorker): boolean => commandId === null;
    const known = await this.#lookUp(operation, order, workers, isUnsent);
    for (const { workerId } of known.filter(isUnsent))
      await this.#commands.closeKey(operation.caller, commandKey(operation, order, workerId));
    return this.#lookUp(operation, order, known, isUnsent);
  }

  /** What became of the commands that were, or may have been, sent to these workers. */
  async #lookUp(
    operation: FleetOperation,
    order: FleetOrder,
    workers: readonly FleetWorker[],
    isLookedUp: (worker: FleetWorker) => boolean,
  ): Promise<readonly FleetWorker[]> {
    const { tenant } = operation.caller.identity;
    const open = workers.filter(isLookedUp);
    const ids = open.map(({ workerId }) => this.#commands.idForKey(tenant, commandKey(operation, order, workerId)));
    const { items } = await this.#context.reader.page({ page: "doc", tenant, collection: "command", names: ids });
    const outcomes = new Map(open.map((worker, at) => [worker, readOutcome(worker, ids[at] ?? "", items[at]?.body)]));
    return workers.map((worker) => outcomes.get(worker) ?? worker);
  }

  async #send(
    operation: FleetOperation,
    order: FleetOrder,
    worker: FleetWorker,
    member: FleetMember | undefined,
  ): Promise<FleetWorker> {
    const { packageName: name, version } = order;
    if (member !== undefined && isFulfilled(order, member)) return { ...worker, status: "done" };
    if (member?.isConnected !== true)
      return toFailed(worker, fault("E.SESSION.UNKNOWN", `worker ${worker.name} is not connected; nothing was sent to it`));
    const command =
      order.action === "install"
        ? { type: "pkg.install" as const, name, version: version ?? "", ...(order.allowOlder === true && { allowOlder: true }) }
        : { type: "pkg.uninstall" as const, name, ...(version !== null && { version }) };
    try {
      const key = commandKey(operation, order, worker.workerId);
      const { id } = await this.#commands.send(operation.caller, worker.workerId, command, key);
      return { ...worker, commandId: id, status: "sent" };
    } catch (why) {
      if (!(why instanceof Fault)) throw why;
      return transientFaultCodes.has(why.code) ? worker : toFailed(worker, why);
    }
  }
}

const commandKey = ({ id }: FleetOperation, { action, version }: FleetOrder, workerId: string): string =>
  `${id}:${action}:${version ?? "*"}:${workerId}`;

/** Nothing has to be sent. An install under way would end after a removal that is not sent, so it counts as there. */
const isFulfilled = ({ action, packageName, version }: FleetOrder, member: FleetMember): boolean =>
  action === "install" ? holdsVersion(member, packageName, version ?? "") : !hasTraceOf(member, packageName, version);

/** `body`: of the command's document; undefined: there is none. */
function readOutcome(worker: FleetWorker, commandId: string, body: string | undefined): FleetWorker {
  if (body === undefined) {
    // A command that is stored no longer had its time; one that was never stored is still to be sent.
    if (worker.status !== "sent") return worker;
    return toFailed(worker, fault("E.TIMEOUT", `worker ${worker.name} did not answer in time; order it again`));
  }
  const record = JSON.parse(body) as WorkerCommandRecord;
  if (record.status === "sent") return worker.status === "sent" ? worker : { ...worker, commandId, status: "sent" };
  if (record.status === "acked") return { ...worker, commandId, status: "done" };
  const { code = "E.INTERNAL", message = "the command failed" } = record.error ?? {};
  return { ...worker, commandId, status: "failed", code, message };
}

const toFailed = (worker: FleetWorker, { code, message }: Fault): FleetWorker => ({ ...worker, status: "failed", code, message });
