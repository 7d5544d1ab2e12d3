// `astra workers list|show|diagnose|drain|undrain|kick|enrol`: inspecting and controlling workers.

import { closestMatch, type Worker } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { type CommandContext, printItem, printList } from "../api/command-context.ts";
import { type FilterFlags, resolveFilter } from "../lookup/list-filters.ts";
import { readPages } from "../lookup/pages.ts";
import { type CliExitCode, CliFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatInstant } from "../output/format.ts";
import { type Colors, stripControlCharacters } from "../output/terminal.ts";
import { describeWorkerState, renderDiagnostics, renderWorker } from "./worker-view.ts";

/** At most this many workers are read. */
const workersMax = 10_000;
const idsShownMax = 5;

type WorkersQuery = NonNullable<Parameters<Client["listWorkers"]>[0]>;

const listAllWorkers = (client: Client, query: WorkersQuery = {}) =>
  readPages((cursor) => client.listWorkers({ ...query, limit: 200, cursor }), workersMax);

export interface WorkerListFlags extends FilterFlags {
  readonly limit?: number;
}

/** The API filters by some keys; the others are applied here. */
async function buildWorkerFilter(words: FilterFlags, context: CommandContext) {
  const line = await resolveFilter(words, "workers", context);
  const yes = (value: string | undefined): boolean | undefined => (value === undefined ? undefined : value === "yes");
  const [packageName, packageVersion] = line.package?.split("@") ?? [];
  const flags = { connected: yes(line.connected), healthy: yes(line.healthy), registered: yes(line.registered) };
  const query = { ...flags, queue: line.queue, packageName, packageVersion };
  const texts = (line.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (worker: Worker): boolean => {
    if (line.draining !== undefined && (worker.draining === true) !== yes(line.draining)) return false;
    if (line.pool !== undefined && worker.capabilities?.pool !== line.pool) return false;
    const searchText = JSON.stringify([worker.id, worker.instanceId, worker.hostname, worker.capabilities?.tags]).toLowerCase();
    return texts.every((text) => searchText.includes(text));
  };
  return { query, fits, isAsked: Object.keys(line).length > 0 };
}

const stateColor = (worker: Worker): keyof Colors | null => {
  const state = describeWorkerState(worker);
  return state === "online" ? "green" : worker.connected === true ? "yellow" : state === "lost" ? "red" : "dim";
};

export async function listWorkers(flags: WorkerListFlags, context: CommandContext): Promise<CliExitCode> {
  const { query, fits, isAsked } = await buildWorkerFilter(flags, context);
  const read = await listAllWorkers(context.client, query);
  const fitting = read.items.filter(fits).sort(compareWorkers);
  const items = fitting.slice(0, flags.limit ?? workersMax);
  printList(
    {
      items,
      jsonBody: { items, nextCursor: read.nextCursor, asOf: read.asOf },
      id: ({ instanceId, id }) => instanceId ?? id,
      columns: [
        { header: "WORKER", value: ({ id }) => id },
        { header: "STATE", value: describeWorkerState, color: stateColor },
        { header: "SLOTS", value: ({ capabilities }) => (capabilities ? String(capabilities.concurrency.maxParallel) : "") },
        { header: "SEEN", value: ({ lastHeartbeatAt }) => formatInstant(lastHeartbeatAt), kind: "when" },
        {
          header: "PACKAGES",
          value: ({ packages = [] }) => packages.map((one) => `${one.name}@${one.version}`).join(" "),
          kind: "text",
        },
        { header: "POOL", value: ({ capabilities }) => capabilities?.pool ?? "", isWide: true },
        { header: "TAGS", value: ({ capabilities }) => formatTags(capabilities?.tags), isWide: true },
        { header: "HOST", value: ({ hostname }) => hostname ?? "", isWide: true },
        { header: "QUEUE", value: ({ queues }) => queues.join(" "), isWide: true },
        { header: "INSTANCE", value: ({ instanceId }) => instanceId ?? "", kind: "id" },
      ],
      emptyMessage: isAsked
        ? "No worker matches the filter. Show all with: astra workers list"
        : "No worker is connected. Start one with: astra worker",
    },
    context,
  );
  if (fitting.length > items.length)
    context.terminal.info(`${fitting.length - items.length} more; show them with --limit ${fitting.length}`);
  return exitCodes.ok;
}

/** Connected workers first, then by name. */
function compareWorkers(a: Worker, b: Worker): number {
  const presence = Number(b.connected === true) - Number(a.connected === true);
  return presence || a.id.localeCompare(b.id) || (a.instanceId ?? "").localeCompare(b.instanceId ?? "");
}

/** The instance id of a worker, from its name or id or the beginning of either. */
async function findWorkerInstance(nameOrId: string, client: Client): Promise<{ instance: string; name: string }> {
  const worker = findWorker(nameOrId, (await listAllWorkers(client)).items);
  return { instance: worker.instanceId ?? worker.id, name: stripControlCharacters(worker.id) };
}

export async function showWorker(nameOrId: string, context: CommandContext): Promise<CliExitCode> {
  const { instance } = await findWorkerInstance(nameOrId, context.client);
  const worker = await context.client.getWorker({ workerId: instance });
  return printItem(worker, () => renderWorker(worker), context);
}

export async function diagnoseWorker(nameOrId: string, context: CommandContext): Promise<CliExitCode> {
  const { instance } = await findWorkerInstance(nameOrId, context.client);
  const diagnostics = await context.client.getWorkerDiagnostics({ workerId: instance });
  return printItem(diagnostics, () => renderDiagnostics(diagnostics), context);
}

export async function setDraining(nameOrId: string, on: boolean, context: CommandContext): Promise<CliExitCode> {
  const { client, terminal, json } = context;
  const { instance, name } = await findWorkerInstance(nameOrId, client);
  const answer = await (on ? client.drainWorker({ workerId: instance }) : client.undrainWorker({ workerId: instance }));
  const change = on ? "is draining: it finishes its current tasks and gets no new ones" : "gets new tasks again";
  printItem(answer, [`${name} ${change}`], context);
  if (on && !json) terminal.info(`next: astra workers diagnose ${name} (shows its tasks), astra workers undrain ${name}`);
  return exitCodes.ok;
}

export async function kickWorker(nameOrId: string, reason: string | undefined, context: CommandContext): Promise<CliExitCode> {
  const { client, confirm } = context;
  const { instance, name } = await findWorkerInstance(nameOrId, client);
  await confirm(`end the session of ${name} (${instance}) now`);
  const answer = await client.kickWorker({ workerId: instance, body: { ...(reason !== undefined && { reason }) } });
  return printItem(
    answer,
    [`The session of ${name} ends; it keeps its tasks and may reconnect with a valid credential.`],
    context,
  );
}

export interface EnrolFlags {
  readonly id?: string;
  readonly pool?: string;
  readonly tag: readonly string[];
  readonly slots?: number;
}

/** Registers a worker before it connects; it then connects with the same instance id. */
export async function enrolWorker(name: string, flags: EnrolFlags, context: CommandContext): Promise<CliExitCode> {
  const tags = flags.tag.map((text) => {
    const at = text.indexOf("=");
    if (at < 1) throw usageFailure(`--tag takes name=value; "${stripControlCharacters(text)}" has no name or no =.`);
    return [text.slice(0, at), text.slice(at + 1)] as const;
  });
  const capabilities = {
    ...(flags.slots !== undefined && { concurrency: { maxParallel: flags.slots } }),
    ...(flags.pool !== undefined && { pool: flags.pool }),
    ...(tags.length > 0 && { tags: Object.fromEntries(tags) }),
  };
  const enrolment = await context.client.enrolWorker({
    body: { workerId: flags.id ?? name, name, ...(Object.keys(capabilities).length > 0 && { capabilities }) },
  });
  printItem(
    enrolment,
    [`${stripControlCharacters(name)} is registered as ${stripControlCharacters(enrolment.instanceId)}`],
    context,
  );
  if (!context.json && !enrolment.connected) context.terminal.info(`It gets tasks once it connects to ${enrolment.wsUrl}`);
  return exitCodes.ok;
}

/** By name or instance id, or its unique beginning; of several with one name, the connected one. */
export function findWorker(nameOrId: string, workers: readonly Worker[]): Worker {
  const exact = workers.filter((worker) => worker.id === nameOrId || worker.instanceId === nameOrId);
  const fitting =
    exact.length > 0
      ? exact
      : workers.filter((worker) => worker.id.startsWith(nameOrId) || worker.instanceId?.startsWith(nameOrId));
  const present = fitting.filter(({ connected }) => connected === true);
  const matches = present.length > 0 && fitting.every(({ id }) => id === fitting[0]?.id) ? present : fitting;
  const [only] = matches;
  if (matches.length > 1) {
    const ids = matches.slice(0, idsShownMax).map(({ instanceId, id }) => stripControlCharacters(instanceId ?? id));
    const list = [...ids, ...(matches.length > ids.length ? ["…"] : [])].join(", ");
    throw usageFailure(
      `"${nameOrId}" matches ${matches.length} workers; use one of their instance ids: ${list}.`,
      "astra workers list",
    );
  }
  if (!only) {
    const suggestion = closestMatch(
      nameOrId,
      workers.map(({ id }) => id),
    );
    const message = `No worker "${stripControlCharacters(nameOrId)}" found.${suggestion === null ? "" : ` Did you mean "${stripControlCharacters(suggestion)}"?`}`;
    throw new CliFailure(exitCodes.notFound, { error: "E.NOT_FOUND", message }, "astra workers list");
  }
  return only;
}

const formatTags = (tags: Readonly<Record<string, string>> = {}): string =>
  Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
