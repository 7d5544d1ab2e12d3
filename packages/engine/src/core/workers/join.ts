// A worker joins: new, after a restart, or with the same session on a new socket. Which attempts it keeps is decided in reconcile.ts.

import { type Fault, fault, omitUndefined } from "@astraflow/protocol";
import type { JoinWorkerCommand, WorkerDescription } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { settingsForTenant, workerTimings } from "../../interface/settings.ts";
import { type WorkerRow, workerKey } from "../../storage/rows.ts";
import { sessionSuperseded } from "../delivery/session-messages.ts";
import { mailReset } from "../delivery/worker-mail.ts";
import { newConnectedWorker } from "../fleet/connected-worker.ts";
import { isGone, newWorkerRow } from "../rows/worker.ts";
import { formerBootsAtJoin, readCondition, type WorkerCondition, writeCondition } from "../rows/worker-condition.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { closeDrainCommands, closeFulfilledCommands, resendCommands } from "./issued-commands.ts";
import { packageChanges, withKnownPackages } from "./package-changes.ts";
import { reconcileAttempts } from "./reconcile.ts";

export function joinWorker(work: UnitOfWork, received: JoinWorkerCommand): AnswerBody | Fault {
  const before = work.worker(received.worker);
  const command = { ...received, about: withKnownPackages(received, before?.about ?? "{}") };
  const refused = command.resumed === undefined ? refuseClone(work, command, before) : refuseResume(work, command, before);
  if (refused !== null) return refused;
  // A dialect without boot ids: the process of the last join, or the first there is.
  const boot = command.boot ?? before?.boot ?? work.nextId();
  const { leaseMs, heartbeatMs } = workerTimings(work.settings, command.tenant, command.about.dialect);
  const condition = conditionAtJoin(command, before, boot);
  const { replica, epoch: replicaEpoch } = work.self;
  const texts = { about: JSON.stringify(command.about), condition: writeCondition(condition) };
  const join = { type: "join", name: command.name, boot, replica, replicaEpoch, ...texts, leaseMs } as const;
  const joined = work.moveWorker(before ?? newWorkerRow(command, boot, work.self, work.now), join);
  const isNewSession = command.resumed === undefined;
  const settled = closeFulfilledCommands(work, joined, command.about, isNewSession);
  const worker = condition.orders === undefined ? settled : closeDrainCommands(work, settled);
  resendCommands(work, worker, command.session);
  work.recordFact(command.tenant, workerKey(worker.id), "worker.joined", {
    name: worker.name,
    boot: worker.boot,
    epoch: worker.epoch,
    slots: command.about.slots,
    ...(command.resumed === undefined ? {} : { resumed: true }),
    ...packageChanges(before?.about ?? "{}", command.about),
  });
  endOlderSessions(work, command, before);
  const attempts = reconcileAttempts(work, { command, before, boot, epoch: worker.epoch });
  const connected = newConnectedWorker(worker, command.session, command.about, work.now, attempts);
  // Nothing was lost between the two ends of a resumed session.
  const lost = command.resumed === undefined ? { unstoppedUntil: work.now + leaseMs } : {};
  work.changeFleet({ type: "connect", connected, ...lost });
  const { drainMemPct, drainDiskPct } = settingsForTenant(work.settings, command.tenant);
  const draining = worker.draining || condition.strain !== null;
  const { dialect: formerDialect } = JSON.parse(before?.about ?? "{}") as Partial<WorkerDescription>;
  const answer = { of: "join", epoch: worker.epoch, leaseMs, heartbeatMs, drainMemPct, drainDiskPct, draining } as const;
  return formerDialect === undefined ? answer : { ...answer, formerDialect };
}

/** What a session inherits: of the same process its last report, of another one only the list of boots. */
function conditionAtJoin(command: JoinWorkerCommand, before: WorkerRow | null, boot: string): WorkerCondition {
  const known = readCondition(before?.condition ?? "{}");
  const isSameBoot = before?.boot === boot;
  return {
    // A new session reports itself when it is unhealthy; a resumed one does not repeat it.
    healthy: command.resumed === undefined || known.healthy,
    strain: isSameBoot ? known.strain : null,
    saturatedAt: known.saturatedAt,
    vitals: isSameBoot ? known.vitals : null,
    beatAt: isSameBoot ? known.beatAt : null,
    session: command.session,
    formerBoots: formerBootsAtJoin(known, isSameBoot ? null : (before?.boot ?? null), boot),
    clones: known.clones.filter((one) => one !== boot),
    ...omitUndefined({ orders: known.orders, unanswered: known.unanswered }),
  };
}

/** The same session on a new socket goes on only if nothing came in between: another session or process, the end of its lease, a kick. */
function refuseResume(work: UnitOfWork, command: JoinWorkerCommand, before: WorkerRow | null): Fault | null {
  const why =
    before === null
      ? "is not known"
      : command.boot !== null && before.boot !== command.boot
        ? "has another process by now"
        : readCondition(before.condition).session !== command.session
          ? "has opened another session since, or was kicked"
          : isGone(before) || before.due === null || before.due <= work.now
            ? "was silent for longer than its lease"
            : null;
  if (why === null) return null;
  return fault("E.SESSION.STALE_BINDING", `worker ${command.name} ${why}; handshake again`, { worker: command.name });
}

/**
 * Two processes with one instance id, as with a cloned image: a boot that was superseded joins again while its successor is live. The
 * newest keeps its session; otherwise the two processes would keep replacing each other. Once it is gone a former boot may return.
 */
function refuseClone(work: UnitOfWork, command: JoinWorkerCommand, before: WorkerRow | null): Fault | null {
  if (before === null || command.boot === null || before.boot === command.boot || before.phase !== "online") return null;
  const known = readCondition(before.condition);
  if (!known.formerBoots.includes(command.boot)) return null;
  const seconds = Math.round((work.now - before.joinedAt) / 1_000);
  const message = `another process with the instance id of worker ${command.name} has been live for ${seconds} s; give this one its own id`;
  work.recordMetric("worker_cloned_total", { tenant: command.tenant });
  // It tries again and again: recorded once, counted always.
  if (!known.clones.includes(command.boot)) {
    const condition = writeCondition({ ...known, clones: [...known.clones, command.boot] });
    work.moveWorker(before, { type: "note", condition });
    work.recordFact(command.tenant, workerKey(before.id), "worker.cloned", {
      boot: command.boot,
      live: before.boot,
      since: before.joinedAt,
      hostname: command.about.hostname,
    });
    work.reportProblem({
      code: "E.SESSION.DENIED",
      message,
      details: { tenant: command.tenant, worker: command.name, boot: command.boot },
    });
  }
  return fault("E.SESSION.DENIED", message, { worker: command.name, since: before.joinedAt });
}

/** At most one live session: the one before, here or elsewhere, is over. */
function endOlderSessions(work: UnitOfWork, { worker, session: current }: JoinWorkerCommand, before: WorkerRow | null): void {
  // Two sockets of one worker may join in one turn: the fleet does not show the first of them yet.
  const joined = work.fleetChanges.flatMap((change) => (change.type === "connect" ? [change.connected] : []));
  const older = [work.fleet.workers.get(worker), ...joined].filter((one) => one?.worker === worker).map((one) => one?.session);
  for (const session of new Set(older))
    if (session !== undefined && session !== current) work.emit({ type: "reset", session, worker, ...sessionSuperseded });
  if (before !== null) mailReset(work, before, sessionSuperseded);
}
