// `astra workers list|show|diagnose|drain|undrain|kick|enrol`: who is connected and how well, who gets no new work, whose session ends, who
// is expected.

import { allItems } from "@astraflow/client";
import { closestMatch, type Worker } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "./failure.ts";
import { type FilterWords, valuesOf } from "./filtering.ts";
import { type Place, printList, printOne, when } from "./place.ts";
import { type Paint, tame } from "./terminal.ts";
import { drawDiagnostics, drawWorker, stateOf } from "./worker-picture.ts";

/** Workers read before a list is called long enough. */
const workersMax = 10_000;
const idsShownMax = 5;

type WorkersQuery = NonNullable<Parameters<Client["listWorkers"]>[0]>;

async function readWorkers(
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

export interface WorkerListWords extends FilterWords {
  readonly limit?: number;
}

/** What the API filters by is asked of it; the rest is looked at here. */
async function workersQuery(words: FilterWords, place: Place) {
  const line = await valuesOf(words, "workers", place);
  const yes = (value: string | undefined): boolean | undefined => (value === undefined ? undefined : value === "yes");
  const [packageName, packageVersion] = line.package?.split("@") ?? [];
  const flags = { connected: yes(line.connected), healthy: yes(line.healthy), registered: yes(line.registered) };
  const query = { ...flags, queue: line.queue, packageName, packageVersion };
  const texts = (line.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (worker: Worker): boolean => {
    if (line.draining !== undefined && (worker.draining === true) !== yes(line.draining)) return false;
    if (line.pool !== undefined && worker.capabilities?.pool !== line.pool) return false;
    const words = JSON.stringify([worker.id, worker.instanceId, worker.hostname, worker.capabilities?.tags]).toLowerCase();
    return texts.every((text) => words.includes(text));
  };
  return { query, fits, isAsked: Object.keys(line).length > 0 };
}

const toneOf = (worker: Worker): keyof Paint | null => {
  const state = stateOf(worker);
  return state === "online" ? "green" : worker.connected === true ? "yellow" : state === "lost" ? "red" : "dim";
};

export async function listWorkers(words: WorkerListWords, place: Place): Promise<ExitCode> {
  const { query, fits, isAsked } = await workersQuery(words, place);
  const read = await readWorkers(place.client, query);
  const fitting = read.items.filter(fits).sort(byPresence);
  const items = fitting.slice(0, words.limit ?? workersMax);
  printList(
    {
      items,
      body: { items, nextCursor: read.nextCursor, asOf: read.asOf },
      id: ({ instanceId, id }) => instanceId ?? id,
      columns: [
        { head: "WORKER", of: ({ id }) => id },
        { head: "STATE", of: stateOf, tone: toneOf },
        { head: "SLOTS", of: ({ capabilities }) => (capabilities ? String(capabilities.concurrency.maxParallel) : "") },
        { head: "SEEN", of: ({ lastHeartbeatAt }) => when(lastHeartbeatAt), kind: "when" },
        {
          head: "PACKAGES",
          of: ({ packages = [] }) => packages.map((one) => `${one.name}@${one.version}`).join(" "),
          kind: "text",
        },
        { head: "POOL", of: ({ capabilities }) => capabilities?.pool ?? "", isWide: true },
        { head: "TAGS", of: ({ capabilities }) => tagsOf(capabilities?.tags), isWide: true },
        { head: "HOST", of: ({ hostname }) => hostname ?? "", isWide: true },
        { head: "QUEUE", of: ({ queues }) => queues.join(" "), isWide: true },
        { head: "INSTANCE", of: ({ instanceId }) => instanceId ?? "", kind: "id" },
      ],
      none: isAsked
        ? "No worker fits that filter. All of them: astra workers list"
        : "No worker has joined. Start one: astra worker",
    },
    place,
  );
  if (fitting.length > items.length) place.terminal.say(`${fitting.length - items.length} more: --limit ${fitting.length}`);
  return exitCodes.ok;
}

/** Those that are there before those that were, each by name. */
function byPresence(a: Worker, b: Worker): number {
  const presence = Number(b.connected === true) - Number(a.connected === true);
  return presence || a.id.localeCompare(b.id) || (a.instanceId ?? "").localeCompare(b.instanceId ?? "");
}

/** Its instance id, from a name or the beginning of either. */
async function findInstance(word: string, client: Client): Promise<{ instance: string; name: string }> {
  const worker = findWorker(word, (await readWorkers(client)).items);
  return { instance: worker.instanceId ?? worker.id, name: tame(worker.id) };
}

export async function showWorker(word: string, { client, terminal, json }: Place): Promise<ExitCode> {
  const { instance } = await findInstance(word, client);
  const worker = await client.getWorker({ workerId: instance });
  if (json) terminal.print(JSON.stringify(worker));
  else for (const line of drawWorker(worker)) terminal.print(line);
  return exitCodes.ok;
}

export async function diagnoseWorker(word: string, { client, terminal, json }: Place): Promise<ExitCode> {
  const { instance } = await findInstance(word, client);
  const diagnostics = await client.getWorkerDiagnostics({ workerId: instance });
  if (json) terminal.print(JSON.stringify(diagnostics));
  else for (const line of drawDiagnostics(diagnostics)) terminal.print(line);
  return exitCodes.ok;
}

export async function setDraining(word: string, on: boolean, { client, terminal, json }: Place): Promise<ExitCode> {
  const { instance, name } = await findInstance(word, client);
  const answer = await (on ? client.drainWorker({ workerId: instance }) : client.undrainWorker({ workerId: instance }));
  if (json) terminal.print(JSON.stringify(answer));
  else terminal.print(`${name} ${on ? "drains: it finishes what it holds and gets nothing new" : "gets work again"}`);
  if (on && !json) terminal.say(`next: astra workers diagnose ${name} (what it still holds), astra workers undrain ${name}`);
  return exitCodes.ok;
}

export async function kickWorker(
  word: string,
  reason: string | undefined,
  { client, terminal, json, agree }: Place,
): Promise<ExitCode> {
  const { instance, name } = await findInstance(word, client);
  await agree(`end the session of ${name} (${instance}) now`);
  const answer = await client.kickWorker({ workerId: instance, body: { ...(reason !== undefined && { reason }) } });
  if (json) terminal.print(JSON.stringify(answer));
  else terminal.print(`the session of ${name} ends; it keeps what it holds and may come back with a good credential`);
  return exitCodes.ok;
}

export interface EnrolWords {
  readonly id?: string;
  readonly pool?: string;
  readonly tag: readonly string[];
  readonly slots?: number;
}

/** Makes a worker known before it has joined; its socket then joins under the same instance id. */
export async function enrolWorker(name: string, words: EnrolWords, place: Place): Promise<ExitCode> {
  const tags = words.tag.map((text) => {
    const at = text.indexOf("=");
    if (at < 1) throw usageFailure(`--tag takes name=value; "${tame(text)}" has no name or no =.`);
    return [text.slice(0, at), text.slice(at + 1)] as const;
  });
  const capabilities = {
    ...(words.slots !== undefined && { concurrency: { maxParallel: words.slots } }),
    ...(words.pool !== undefined && { pool: words.pool }),
    ...(tags.length > 0 && { tags: Object.fromEntries(tags) }),
  };
  const enrolment = await place.client.enrolWorker({
    body: { workerId: words.id ?? name, name, ...(Object.keys(capabilities).length > 0 && { capabilities }) },
  });
  printOne(enrolment, [`${tame(name)} is known as ${tame(enrolment.instanceId)}`], place);
  if (!place.json && !enrolment.connected)
    place.terminal.say(`It gets no work before it joins: its socket goes to ${enrolment.wsUrl}`);
  return exitCodes.ok;
}

/** By name or instance id, shortened while unique; of several with one name, the one that is there. */
export function findWorker(word: string, workers: readonly Worker[]): Worker {
  const exact = workers.filter((worker) => worker.id === word || worker.instanceId === word);
  const fitting =
    exact.length > 0 ? exact : workers.filter((worker) => worker.id.startsWith(word) || worker.instanceId?.startsWith(word));
  const present = fitting.filter(({ connected }) => connected === true);
  const matches = present.length > 0 && fitting.every(({ id }) => id === fitting[0]?.id) ? present : fitting;
  const [only] = matches;
  if (matches.length > 1) {
    const ids = matches.slice(0, idsShownMax).map(({ instanceId, id }) => tame(instanceId ?? id));
    const list = [...ids, ...(matches.length > ids.length ? ["…"] : [])].join(", ");
    throw usageFailure(`"${word}" fits ${matches.length} workers; use one of their instance ids: ${list}.`, "astra workers list");
  }
  if (!only) {
    const near = closestMatch(
      word,
      workers.map(({ id }) => id),
    );
    const message = `No worker is called "${tame(word)}".${near === null ? "" : ` Did you mean "${tame(near)}"?`}`;
    throw new CliFailure(exitCodes.notFound, { error: "E.NOT_FOUND", message }, "astra workers list");
  }
  return only;
}

const tagsOf = (tags: Readonly<Record<string, string>> = {}): string =>
  Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
