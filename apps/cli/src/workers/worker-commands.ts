// `astra workers list|show|diagnose|drain|undrain|kick|enrol`: who is connected and how well, who gets no new work, whose session ends, who
// is expected.

import { allItems } from "@astraflow/client";
import { closestMatch, type Worker } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { type CommandContext, printItem, printList } from "../api/command-context.ts";
import { type FilterFlags, resolveFilter } from "../lookup/list-filters.ts";
import { type CliExitCode, CliFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatInstant } from "../output/format.ts";
import { type Colors, stripControlCharacters } from "../output/terminal.ts";
import { describeWorkerState, renderDiagnostics, renderWorker } from "./worker-view.ts";

/** Workers read before a list is called long enough. */
const workersMax = 10_000;
const idsShownMax = 5;

type WorkersQuery = NonNullable<Parameters<Client["listWorkers"]>[0]>;

async function listAllWorkers(
  client: Client,
  query: WorkersQuery = {},
  max = workersMax,
): Promise<{ items: Worker[]; nextCursor: string | null; asOf: number }> {
  const items: Worker[] = [];
  let asOf = 0;
  let nextCursor: string | null = null;
  const all = allItems(async (cursor) => {
    const page = await client.listWorkers({ ...query, limit: 200, cursor });
    asOf = page.asOf ?? asOf;
    nextCursor = page.nextCursor;
    return page;
  });
  for await (const worker of all) {
    items.push(worker);
    if (items.length >= max) break;
  }
  return { items, nextCursor, asOf };
}

export interface WorkerListFlags extends FilterFlags {
  readonly limit?: number;
}

/** What the API filters by is asked of it; the rest is looked at here. */
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

/** Those that are there before those that were, each by name. */
function compareWorkers(a: Worker, b: Worker): number {
  const presence = Number(b.connected === true) - Number(a.connected === true);
  return presence || a.id.localeCompare(b.id) || (a.instanceId ?? "").localeCompare(b.instanceId ?? "");
}

/** Its instance id, from a name or the beginning of either. */
async function findWorkerInstance(nameOrId: string, client: Client): Promise<{ instance: string; name: string }> {
  const worker = findWorker(nameOrId, (await listAllWorkers(client)).items);
  return { instance: worker.instanceId ?? worker.id, name: stripControlCharacters(worker.id) };
}

export async function showWorker(nameOrId: string, { client, terminal, json }: CommandContext): Promise<CliExitCode> {
  const { instance } = await findWorkerInstance(nameOrId, client);
  const worker = await client.getWorker({ workerId: instance });
  if (json) terminal.print(JSON.stringify(worker));
  else for (const line of renderWorker(worker)) terminal.print(line);
  return exitCodes.ok;
}

export async function diagnoseWorker(nameOrId: string, { client, terminal, json }: CommandContext): Promise<CliExitCode> {
  const { instance } = await findWorkerInstance(nameOrId, client);
  const diagnostics = await client.getWorkerDiagnostics({ workerId: instance });
  if (json) terminal.print(JSON.stringify(diagnostics));
  else for (const line of renderDiagnostics(diagnostics)) terminal.print(line);
  return exitCodes.ok;
}

export async function setDraining(
  nameOrId: string,
  on: boolean,
  { client, terminal, json }: CommandContext,
): Promise<CliExitCode> {
  const { instance, name } = await findWorkerInstance(nameOrId, client);
  const answer = await (on ? client.drainWorker({ workerId: instance }) : client.undrainWorker({ workerId: instance }));
  if (json) terminal.print(JSON.stringify(answer));
  else
    terminal.print(`${name} ${on ? "is draining: it finishes its current tasks and gets no new ones" : "gets new tasks again"}`);
  if (on && !json) terminal.info(`next: astra workers diagnose ${name} (what it still holds), astra workers undrain ${name}`);
  return exitCodes.ok;
}

export async function kickWorker(
  nameOrId: string,
  reason: string | undefined,
  { client, terminal, json, confirm }: CommandContext,
): Promise<CliExitCode> {
  const { instance, name } = await findWorkerInstance(nameOrId, client);
  await confirm(`end the session of ${name} (${instance}) now`);
  const answer = await client.kickWorker({ workerId: instance, body: { ...(reason !== undefined && { reason }) } });
  if (json) terminal.print(JSON.stringify(answer));
  else terminal.print(`The session of ${name} ends; it keeps its tasks and may reconnect with a valid credential.`);
  return exitCodes.ok;
}

export interface EnrolFlags {
  readonly id?: string;
  readonly pool?: string;
  readonly tag: readonly string[];
  readonly slots?: number;
}

/** Makes a worker known before it has joined; its socket then joins under the same instance id. */
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

/** By name or instance id, shortened while unique; of several with one name, the one that is there. */
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
