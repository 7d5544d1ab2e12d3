// `astra workers list|show|diagnose|drain|undrain|kick`: who is connected and how well, who gets no new work, whose session ends.

import { allItems } from "@astraflow/client";
import type { Worker } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "./failure.ts";
import { type Place, printList } from "./place.ts";
import { tame } from "./terminal.ts";
import { drawDiagnostics, drawWorker, stateOf } from "./worker-picture.ts";

/** Workers read before a list is called long enough. */
const workersMax = 10_000;
const idsShownMax = 5;

async function readWorkers(client: Client): Promise<Worker[]> {
  const workers: Worker[] = [];
  for await (const worker of allItems((cursor) => client.listWorkers({ limit: 200, cursor }))) {
    workers.push(worker);
    if (workers.length >= workersMax) break;
  }
  return workers;
}

export async function listWorkers(place: Place): Promise<ExitCode> {
  const items = (await readWorkers(place.client)).sort(byPresence);
  return printList(
    {
      items,
      body: { items },
      id: ({ instanceId, id }) => instanceId ?? id,
      columns: [
        { head: "WORKER", of: ({ id }) => id },
        { head: "STATE", of: stateOf },
        { head: "SLOTS", of: ({ capabilities }) => (capabilities ? String(capabilities.concurrency.maxParallel) : "") },
        { head: "SEEN", of: ({ lastHeartbeatAt }) => lastHeartbeatAt },
        { head: "PACKAGES", of: ({ packages = [] }) => packages.map((one) => `${one.name}@${one.version}`).join(" ") },
        { head: "POOL", of: ({ capabilities }) => capabilities?.pool ?? "", isWide: true },
        { head: "HOST", of: ({ hostname }) => hostname ?? "", isWide: true },
        { head: "QUEUE", of: ({ queues }) => queues.join(" "), isWide: true },
        { head: "INSTANCE", of: ({ instanceId }) => instanceId ?? "" },
      ],
      none: "No worker has joined. Start one: astra worker",
    },
    place,
  );
}

/** Those that are there before those that were, each by name. */
function byPresence(a: Worker, b: Worker): number {
  const presence = Number(b.connected === true) - Number(a.connected === true);
  return presence || a.id.localeCompare(b.id) || (a.instanceId ?? "").localeCompare(b.instanceId ?? "");
}

/** Its instance id, from a name or the beginning of either. */
async function findInstance(word: string, client: Client): Promise<{ instance: string; name: string }> {
  const worker = findWorker(word, await readWorkers(client));
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
  return exitCodes.ok;
}

export async function kickWorker(word: string, reason: string | undefined, { client, terminal, json }: Place): Promise<ExitCode> {
  const { instance, name } = await findInstance(word, client);
  const answer = await client.kickWorker({ workerId: instance, body: { ...(reason !== undefined && { reason }) } });
  if (json) terminal.print(JSON.stringify(answer));
  else terminal.print(`the session of ${name} ends; it keeps what it holds and may come back with a good credential`);
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
  if (!only)
    throw new CliFailure(
      exitCodes.notFound,
      { error: "E.NOT_FOUND", message: `No worker is called "${word}".` },
      "astra workers list",
    );
  return only;
}
