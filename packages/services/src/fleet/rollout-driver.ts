// Carries rollouts and rollbacks out. Every scheduler steps through all that are open: a step reads the document, sends commands whose ids
// are made from it, and writes it under the revision that was read. So it does not matter who steps, how often, or who dies in between.

import type { DocPut } from "@astraflow/engine";
import { RecordStore, type StoredRecord } from "../documents/documents.ts";
import { listRunningRecords } from "../documents/tenant-rounds.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import type { PackageRepository } from "../packages/package-repository.ts";
import type { FleetCommands, FleetOrder } from "./fleet-commands.ts";
import { advanceEach, logFleetFailure } from "./fleet-loop.ts";
import { hasEnded, installableMembers, listFleet } from "./fleet-members.ts";
import {
  beginPhase,
  beginRemoval,
  beginRollback,
  currentPhase,
  endPhase,
  findTooManyFailures,
  finish,
  finishReturn,
  isOpenRollout,
  judgeInstalls,
  planReturn,
  type RolloutPhase,
  removableWorkers,
  type RolloutRecord,
  rolloutCollection,
  withPhase,
} from "./rollout-record.ts";
import { planRolloutWrite, planWithdrawal } from "./rollout-writes.ts";
import { VersionOutcomes } from "./version-outcomes.ts";

export interface RolloutDriverOptions extends ServiceContext {
  readonly packages: PackageRepository;
  readonly commands: FleetCommands;
  /** Called before a rollout is written as finished; again if it cannot be written. */
  readonly onFinished: (caller: Caller, record: RolloutRecord) => Promise<void>;
  /** A rollout or rollback has ended. */
  readonly onEnded?: ((tenant: string, status: RolloutRecord["status"]) => void) | undefined;
}

/** Moves of one rollout in one step: phases without workers pass at once. */
const movesPerStepMax = 50;

/** What a step makes of a record, and what is written with it. */
interface Move {
  readonly record: RolloutRecord;
  readonly action?: string;
  readonly puts?: readonly DocPut[];
}

export class RolloutDriver {
  readonly #options: RolloutDriverOptions;
  readonly #records: RecordStore<RolloutRecord>;
  readonly #outcomes: VersionOutcomes;

  constructor(options: RolloutDriverOptions) {
    this.#options = options;
    this.#records = new RecordStore(options, rolloutCollection);
    this.#outcomes = new VersionOutcomes(options.reader);
  }

  /** One step of every open rollout; true: something is left to do. */
  async step(tenant: string): Promise<boolean> {
    const open = await listRunningRecords(this.#records, tenant, isOpenRollout);
    await advanceEach(this.#options, tenant, open, (stored) => this.#advance(stored));
    return open.length > 0;
  }

  async #advance(stored: StoredRecord<RolloutRecord>): Promise<void> {
    let { record, rev } = stored;
    for (let moves = 0; moves < movesPerStepMax && isOpenRollout(record); moves += 1) {
      const move = await this.#decide(record);
      if (move === null) return;
      const ended = !isOpenRollout(move.record);
      if (move.record.status === "finished") await this.#retire(move.record);
      const next = { ...move.record, updatedAt: this.#now() };
      const action = move.action ?? (ended ? `package.${record.kind}.${next.status}` : null);
      const write = planRolloutWrite(next, rev, { action, puts: move.puts ?? [] });
      const { revs } = await this.#records.write(actorOf(callerOf(record)), write);
      if (ended) this.#options.onEnded?.(record.identity.tenant, next.status);
      record = next;
      rev = revs[0] ?? rev + 1;
    }
  }

  /** Old versions that stay do no harm: the rollout ends all the same, and the next one finds them. */
  async #retire(record: RolloutRecord): Promise<void> {
    try {
      await this.#options.onFinished(callerOf(record), record);
    } catch (problem) {
      logFleetFailure(this.#options, problem, { tenant: record.identity.tenant, operation: record.id });
    }
  }

  /** Null: nothing has changed, and something is waited for. */
  #decide(record: RolloutRecord): Promise<Move | null> {
    if (record.status === "rollingBack") return this.#goBack(record);
    return record.kind === "rollback" ? this.#rollBackByOrder(record) : this.#rollOut(record);
  }

  async #rollOut(before: RolloutRecord): Promise<Move | null> {
    const { record, isAtEnd } = await this.#countTasks(before);
    const tooMany = findTooManyFailures(record);
    if (tooMany !== null) return this.#withdraw(record, tooMany);
    const changed: Move | null = record === before ? null : { record };
    switch (currentPhase(record).status) {
      case "waiting": {
        const fleet = await listFleet(this.#options.reader, record.identity.tenant);
        return { record: beginPhase(record, installableMembers(fleet, record)) };
      }
      case "installing": {
        const moved = await this.#advanceInstalls(record);
        const verdict = judgeInstalls(moved, this.#now());
        if (verdict === null) return moved === record ? changed : { record: moved };
        return "code" in verdict ? this.#withdraw(moved, verdict) : { record: verdict };
      }
      case "observing": {
        if (!isAtEnd || this.#now() < (record.observeUntil ?? 0)) return changed;
        const { record: next, isLast } = endPhase(record);
        return { record: isLast ? finish(next, "finished", this.#now()) : next };
      }
      default:
        throw new Error(`rollout ${record.id} is running in a phase that is ${currentPhase(record).status}`);
    }
  }

  /** Tasks of the version that ended since the last look. */
  async #countTasks(record: RolloutRecord): Promise<{ readonly record: RolloutRecord; readonly isAtEnd: boolean }> {
    const { identity, packageName, version, logCursor, tasks } = record;
    const { succeeded, failed, cursor, isAtEnd } = await this.#outcomes.count({
      tenant: identity.tenant,
      packageName,
      version,
      after: logCursor,
    });
    // The cursor alone is not worth a write, unless much was skipped: the next look begins where this one did.
    const isWorthIt = succeeded + failed > 0 || !isAtEnd;
    if (!isWorthIt) return { record, isAtEnd };
    const counted = { succeeded: tasks.succeeded + succeeded, failed: tasks.failed + failed };
    return { record: { ...record, tasks: counted, logCursor: cursor }, isAtEnd };
  }

  /** Stops it and takes the version back: from now on only runs that name it use it. */
  async #withdraw(record: RolloutRecord, reason: RolloutRecord["reason"]): Promise<Move> {
    const { identity, packageName, version } = record;
    const puts = await planWithdrawal(this.#options.packages, identity.tenant, packageName, version);
    return { record: beginRollback(record, reason), action: "package.withdraw", puts };
  }

  async #goBack(record: RolloutRecord): Promise<Move | null> {
    const { rollback, previousVersion, version, packageName } = record;
    if (rollback === null) return { record: planReturn(await this.#endInstalls(record)) };
    const restore = { action: "install", packageName, version: previousVersion, allowOlder: true } as const;
    const installs = await this.#advanceWorkers(record, restore, rollback.installs);
    if (installs !== rollback.installs) return { record: { ...record, rollback: { ...rollback, installs } } };
    if (!installs.every(hasEnded)) return null;
    const removal = { action: "uninstall", packageName, version } as const;
    const uninstalls = await this.#advanceWorkers(record, removal, removableWorkers(rollback));
    if (uninstalls !== rollback.uninstalls) return { record: { ...record, rollback: { ...rollback, uninstalls } } };
    return uninstalls.every(hasEnded) ? { record: finishReturn(record, this.#now()) } : null;
  }

  /** An ordered rollback: everybody gets the older version, then those who have it lose the newer one. */
  async #rollBackByOrder(record: RolloutRecord): Promise<Move | null> {
    const { rollback, previousVersion, packageName } = record;
    if (rollback === null) {
      const moved = await this.#advanceInstalls(record);
      if (!currentPhase(moved).workers.every(hasEnded)) return moved === record ? null : { record: moved };
      const hasFailed = currentPhase(moved).workers.some(({ status }) => status === "failed");
      return { record: beginRemoval(withPhase(moved, { status: hasFailed ? "failed" : "done" })) };
    }
    const removal = { action: "uninstall", packageName, version: previousVersion } as const;
    const uninstalls = await this.#advanceWorkers(record, removal, rollback.uninstalls);
    if (uninstalls !== rollback.uninstalls) return { record: { ...record, rollback: { ...rollback, uninstalls } } };
    if (!uninstalls.every(hasEnded)) return null;
    const failed = currentPhase(record).workers.find(({ status }) => status === "failed");
    if (failed === undefined) return { record: finish(record, "finished", this.#now()) };
    const message = `${packageName} ${record.version} could not be installed on worker ${failed.name}, which keeps ${previousVersion}: ${failed.message}`;
    return { record: finish({ ...record, reason: { code: "install-failed", message } }, "stopped", this.#now()) };
  }

  /** An operator has named the version: it may be older than one that a worker had, as a fix of what was rolled back is. */
  async #advanceInstalls(record: RolloutRecord): Promise<RolloutRecord> {
    const { workers } = currentPhase(record);
    const { packageName, version } = record;
    const order: FleetOrder = { action: "install", packageName, version, allowOlder: true };
    const moved = await this.#advanceWorkers({ ...record, id: phaseOperationId(record, record.phase) }, order, workers);
    return moved === workers ? record : withPhase(record, { workers: moved });
  }

  /** With every install that was sent, also by schedulers that did not write it down; after this none is sent any more. */
  async #endInstalls(record: RolloutRecord): Promise<RolloutRecord> {
    const { packageName, version, phases } = record;
    const order = { action: "install", packageName, version } as const;
    const ended: RolloutPhase[] = [];
    for (const [at, phase] of phases.entries()) {
      const operation = { id: phaseOperationId(record, at), caller: callerOf(record) };
      ended.push({ ...phase, workers: await this.#options.commands.endSending(operation, order, phase.workers) });
    }
    return { ...record, phases: ended };
  }

  #advanceWorkers(record: RolloutRecord, order: FleetOrder, workers: Parameters<FleetCommands["advance"]>[2]) {
    return this.#options.commands.advance({ id: record.id, caller: callerOf(record) }, order, workers);
  }

  #now(): number {
    return this.#options.environment.clock.now();
  }
}

/** A worker that was lost may be told again, in a later phase: a command of its own. */
const phaseOperationId = ({ id }: RolloutRecord, phase: number): string => `${id}.${phase}`;

const callerOf = ({ identity, requestId }: RolloutRecord): Caller => ({ identity, requestId });
