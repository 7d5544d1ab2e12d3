// What an operator should look at now, each with what to do. Nothing is stored: an alert is there as long as its cause.

import { readCondition, type StoreReader, type WorkerCommandRecord, type WorkerRow } from "@astraflow/engine";
import { type Alert, packageFleetLimits } from "@astraflow/protocol";
import { RecordStore } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { readWorkerDescription } from "../presentation/worker-description.ts";
import { instanceIdOf } from "../presentation/worker-view.ts";
import { type RolloutRecord, rolloutCollection } from "./rollout-record.ts";

/** Rollouts and commands that are looked at, the newest first where they have an order. */
const recordsMax = 500;

export interface AlertsOptions extends ServiceContext {
  /** Whether the disk of the store is full; absent: it is not known. */
  readonly isStoreDiskFull?: (() => boolean) | undefined;
}

type TimedAlert = Omit<Alert, "since"> & { readonly since: number };

export class Alerts {
  readonly #options: AlertsOptions;
  readonly #rollouts: RecordStore<RolloutRecord>;

  constructor(options: AlertsOptions) {
    this.#options = options;
    this.#rollouts = new RecordStore(options, rolloutCollection);
  }

  async list(tenant: string) {
    const { reader, environment, isStoreDiskFull } = this.#options;
    const { items: workers, head } = await reader.page({ page: "workers", tenant });
    const found: TimedAlert[] = [
      ...(isStoreDiskFull?.() === true ? [storeDiskFull(environment.clock.now())] : []),
      ...workers.flatMap(workerAlerts),
      ...(await this.#findStoppedRollouts(tenant)),
      ...(await findFailedInstalls(reader, tenant, workers)),
    ];
    found.sort((a, b) => b.since - a.since);
    const items = found.slice(0, packageFleetLimits.alertsMax).map(({ since, ...rest }) => ({ ...rest, since: isoTime(since) }));
    return { items, isPartial: found.length > items.length, asOf: head };
  }

  /** Of each package the last rollout, if it was stopped. */
  async #findStoppedRollouts(tenant: string): Promise<TimedAlert[]> {
    const { items } = await this.#rollouts.list({ tenant, order: "desc", limit: recordsMax });
    const seen = new Set<string>();
    return items.flatMap(({ record }) => {
      const isNewest = !seen.has(record.packageName);
      seen.add(record.packageName);
      return isNewest && record.reason !== null && record.reason.code !== "operator" ? [stoppedRollout(record)] : [];
    });
  }
}

const storeDiskFull = (now: number): TimedAlert => ({
  code: "store.disk_full",
  subject: { type: "scheduler", id: "store" },
  since: now,
  message: "The disk of the scheduler's store is full; nothing new is accepted.",
  remedy: "Free some space there. Everything that waits goes on by itself.",
});

function workerAlerts(row: WorkerRow): TimedAlert[] {
  const subject = { type: "worker", id: instanceIdOf(row.id) } as const;
  if (row.phase === "lost")
    return [
      {
        code: "worker.lost",
        subject,
        since: row.seenAt,
        message: `Worker ${row.name} was silent for longer than its lease; what it held was taken back.`,
        remedy:
          "Look at its machine and its log, and start it again. A worker that is gone for good is forgotten after --retain-workers.",
      },
    ];
  const { strain, beatAt } = readCondition(row.condition);
  if (row.phase !== "online" || strain === null || !strain.split(" ").includes("disk")) return [];
  return [
    {
      code: "worker.disk_full",
      subject,
      since: beatAt ?? row.seenAt,
      message: `The disk of worker ${row.name} is nearly full; it gets no new work.`,
      remedy: "Free some space on its machine, or uninstall versions of packages there. It gets work again by itself.",
    },
  ];
}

const stoppedRollout = (record: RolloutRecord): TimedAlert => ({
  code: "package.rollout_stopped",
  subject: { type: "rollout", id: record.id },
  since: record.finishedAt ?? record.updatedAt,
  message: `The ${record.kind} of ${record.packageName} ${record.version} was stopped: ${record.reason?.message ?? ""}`,
  remedy: rolloutRemedy(record),
});

function rolloutRemedy({ kind, reason, previousVersion, version }: RolloutRecord): string {
  if (kind === "rollback") return "Look at the workers of the rollback that failed, and order it again.";
  if (reason?.code === "rollback-failed") {
    const restore = previousVersion === null ? "" : `install ${previousVersion} and `;
    return `Look at the workers that the message names: they did not go back. Remove the cause, ${restore}uninstall ${version} there; then publish a corrected version and roll that out.`;
  }
  const outcome = previousVersion === null ? "The version was taken away again" : `Workers are back at ${previousVersion}`;
  return `${outcome}. Publish a corrected version and roll that out.`;
}

/** Failed installs on workers that still lack the version. */
async function findFailedInstalls(reader: StoreReader, tenant: string, workers: readonly WorkerRow[]): Promise<TimedAlert[]> {
  const query = { page: "docs", tenant, collection: "command", search: "pkg.install", limit: recordsMax } as const;
  const { items } = await reader.page(query);
  const rows = new Map(workers.map((row) => [row.id, row]));
  const newest = new Map<string, TimedAlert>();
  for (const { id, body } of items) {
    const { worker, workerName, order, status, error, endedAt } = JSON.parse(body) as WorkerCommandRecord;
    const row = rows.get(worker);
    if (order.type !== "pkg.install" || status !== "failed" || row?.phase !== "online") continue;
    const isThere = (readWorkerDescription(row).packages ?? []).some(
      ({ name, version, status: state }) => name === order.name && version === order.version && state === "installed",
    );
    const key = `${worker} ${order.name} ${order.version}`;
    const since = endedAt ?? 0;
    if (isThere || since < (newest.get(key)?.since ?? 0)) continue;
    newest.set(key, {
      code: "package.install_failed",
      subject: { type: "install", id: id.slice(`${tenant}/command/`.length) },
      since,
      message: `${order.name} ${order.version} could not be installed on worker ${workerName}: ${error?.message ?? "no reason given"}`,
      remedy: "Remove the cause that the message names, and order the install again.",
    });
  }
  return [...newest.values()];
}
