// `astra workers list|show|diagnose|drain|undrain|kick|enrol`: inspecting and controlling workers.

import { closestMatch, omitUndefined, type Worker } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { type CommandContext, printItem, printList, type TextInput } from "../api/command-context.ts";
import { parsePair } from "../api/input-file.ts";
import { type FilterFlags, matchesEveryWord, resolveFilter } from "../lookup/list-filters.ts";
import { readPages } from "../lookup/pages.ts";
import { type ExitCode, notFoundFailure, usageFailure } from "../output/cli-failure.ts";
import { formatInstant, formatValues } from "../output/format.ts";
import { type Colors, stripControlCharacters } from "../output/terminal.ts";
import { describeWorkerState, renderDiagnostics, renderWorker } from "./worker-view.ts";

const workersMax = 10_000;
const idsShownMax = 5;

const listAllWorkers = (client: Client, query: Parameters<Client["listWorkers"]>[0] = {}) =>
  readPages((cursor) => client.listWorkers({ ...query, limit: 200, cursor }), workersMax);

/** The API filters by some keys; the others are applied here. */
async function buildWorkerFilter(filterFlags: FilterFlags, context: CommandContext) {
  const line = await resolveFilter(filterFlags, "workers", context);
  const yes = (value: string | undefined): boolean | undefined => (value === undefined ? undefined : value === "yes");
  const [packageName, packageVersion] = line.package?.split("@") ?? [];
  const flags = { connected: yes(line.connected), healthy: yes(line.healthy), registered: yes(line.registered) };
  const query = { ...flags, queue: line.queue, packageName, packageVersion };
  const fits = (worker: Worker): boolean => {
    if (line.draining !== undefined && (worker.draining === true) !== yes(line.draining)) return false;
    if (line.pool !== undefined && worker.capabilities?.pool !== line.pool) return false;
    const { id, instanceId, hostname, capabilities } = worker;
    return matchesEveryWord(line.text, JSON.stringify([id, instanceId, hostname, capabilities?.tags]));
  };
  return { query, fits, isAsked: Object.keys(line).length > 0 };
}

const stateColor = (worker: Worker): keyof Colors | null => {
  const state = describeWorkerState(worker);
  return state === "online" ? "green" : worker.connected === true ? "yellow" : state === "lost" ? "red" : "dim";
};

export async function listWorkers(context: CommandContext, flags: FilterFlags & { limit?: number }): Promise<ExitCode> {
  const { query, fits, isAsked } = await buildWorkerFilter(flags, context);
  const read = await listAllWorkers(context.client, query);
  const fitting = read.items.filter(fits).sort(compareWorkers);
  const items = fitting.slice(0, flags.limit ?? workersMax);
  const code = printList<Worker>(
    context,
    { items, nextCursor: read.nextCursor, asOf: read.asOf },
    {
      id: ({ instanceId, id }) => instanceId ?? id,
      columns: [
        { header: "WORKER", value: ({ id }) => id, isKept: true },
        { header: "STATE", value: describeWorkerState, isKept: true, color: stateColor },
        { header: "SLOTS", value: ({ capabilities }) => (capabilities ? String(capabilities.concurrency.maxParallel) : "") },
        { header: "SEEN", value: ({ lastHeartbeatAt }) => formatInstant(lastHeartbeatAt), kind: "when" },
        { header: "PACKAGES", value: formatPackages, kind: "text" },
        { header: "POOL", value: ({ capabilities }) => capabilities?.pool ?? "", isWide: true },
        { header: "TAGS", value: ({ capabilities }) => formatValues(capabilities?.tags ?? {}), isWide: true },
        { header: "HOST", value: ({ hostname }) => hostname ?? "", isWide: true },
        { header: "QUEUE", value: ({ queues }) => queues.join(" "), isWide: true },
        { header: "INSTANCE", value: ({ instanceId }) => instanceId ?? "", kind: "id" },
      ],
      emptyMessage: isAsked
        ? "No worker matches the filter. Show all with: astra workers list"
        : "No worker is connected. Start one with: astra worker",
    },
  );
  if (fitting.length > items.length)
    context.terminal.info(`${fitting.length - items.length} more; show them with --limit ${fitting.length}`);
  return code;
}

const formatPackages = ({ packages = [] }: Worker): string => packages.map((one) => `${one.name}@${one.version}`).join(" ");

/** Connected workers first, then by name. */
export function compareWorkers(a: Worker, b: Worker): number {
  const presence = Number(b.connected === true) - Number(a.connected === true);
  return presence || a.id.localeCompare(b.id) || (a.instanceId ?? "").localeCompare(b.instanceId ?? "");
}

type WorkerInput = TextInput<"worker", "reason">;

/** The id by which the API knows a worker, and its name; from its name or id or the beginning of either. */
async function findWorkerId(nameOrId: string, client: Client): Promise<{ workerId: string; name: string }> {
  const worker = findWorker(nameOrId, (await listAllWorkers(client)).items);
  return { workerId: worker.instanceId ?? worker.id, name: stripControlCharacters(worker.id) };
}

export async function showWorker(context: CommandContext, input: WorkerInput): Promise<ExitCode> {
  const { workerId } = await findWorkerId(input.worker, context.client);
  const worker = await context.client.getWorker({ workerId });
  return printItem(context, worker, () => renderWorker(worker));
}

export async function diagnoseWorker(context: CommandContext, input: WorkerInput): Promise<ExitCode> {
  const { workerId } = await findWorkerId(input.worker, context.client);
  const diagnostics = await context.client.getWorkerDiagnostics({ workerId });
  return printItem(context, diagnostics, () => renderDiagnostics(diagnostics));
}

export async function drainWorker(context: CommandContext, input: WorkerInput): Promise<ExitCode> {
  const { workerId, name } = await findWorkerId(input.worker, context.client);
  const answer = await context.client.drainWorker({ workerId });
  const hint = `next: astra workers diagnose ${name} (shows its tasks), astra workers undrain ${name}`;
  return printItem(context, answer, `${name} is draining: it finishes its current tasks and gets no new ones`, hint);
}

export async function undrainWorker(context: CommandContext, input: WorkerInput): Promise<ExitCode> {
  const { workerId, name } = await findWorkerId(input.worker, context.client);
  return printItem(context, await context.client.undrainWorker({ workerId }), `${name} gets new tasks again`);
}

export async function kickWorker(context: CommandContext, { worker, reason }: WorkerInput): Promise<ExitCode> {
  const { workerId, name } = await findWorkerId(worker, context.client);
  await context.confirm(`end the session of ${name} (${workerId}) now`);
  const answer = await context.client.kickWorker({ workerId, body: omitUndefined({ reason }) });
  const line = `The session of ${name} ends; it keeps its tasks and may reconnect with a valid credential.`;
  return printItem(context, answer, line);
}

interface EnrolInput extends TextInput<"name", "id" | "pool"> {
  readonly tag: readonly string[];
  readonly slots?: number;
}

/** Registers a worker before it connects; it then connects with the same instance id. */
export async function enrolWorker(context: CommandContext, { name, id, pool, tag, slots }: EnrolInput): Promise<ExitCode> {
  const tags = tag.map((text) => parsePair(text, "--tag"));
  const capabilities = {
    ...(slots !== undefined && { concurrency: { maxParallel: slots } }),
    ...omitUndefined({ pool }),
    ...(tags.length > 0 && { tags: Object.fromEntries(tags) }),
  };
  const enrolment = await context.client.enrolWorker({
    body: { workerId: id ?? name, name, ...(Object.keys(capabilities).length > 0 && { capabilities }) },
  });
  const hint = !enrolment.connected && `It gets tasks once it connects to ${enrolment.wsUrl}`;
  return printItem(context, enrolment, `${name} is registered as ${enrolment.instanceId}`, hint);
}

/** By name or instance id, or its unique beginning; of several with one name, the connected one. */
export function findWorker(nameOrId: string, workers: readonly Worker[]): Worker {
  const exact = workers.filter((worker) => worker.id === nameOrId || worker.instanceId === nameOrId);
  const isBeginning = ({ id, instanceId }: Worker): boolean =>
    id.startsWith(nameOrId) || instanceId?.startsWith(nameOrId) === true;
  const fitting = exact.length > 0 ? exact : workers.filter(isBeginning);
  const present = fitting.filter(({ connected }) => connected === true);
  const matches = present.length > 0 && fitting.every(({ id }) => id === fitting[0]?.id) ? present : fitting;
  const [match] = matches;
  if (match === undefined) {
    const names = workers.map(({ id }) => id);
    throw notFoundFailure("worker", nameOrId, closestMatch(nameOrId, names), "astra workers list");
  }
  if (matches.length === 1) return match;
  const ids = matches.slice(0, idsShownMax).map(({ instanceId, id }) => stripControlCharacters(instanceId ?? id));
  const list = [...ids, ...(matches.length > ids.length ? ["…"] : [])].join(", ");
  const message = `"${nameOrId}" matches ${matches.length} workers; use one of their instance ids: ${list}.`;
  throw usageFailure(message, "astra workers list");
}
