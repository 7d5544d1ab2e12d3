// `astra letters`, `astra audit` and `astra events`: what failed for good, who did what, and what happens now.

import { allItems } from "@astraflow/client";
import type { DeadLetter, ServerEvent } from "@astraflow/protocol";
import { actorIdOf, userNames } from "./actors.ts";
import { type ExitCode, exitCodes } from "./failure.ts";
import { type FilterWords, instantText, valuesOf } from "./filtering.ts";
import { findRun, pick } from "./finding.ts";
import { type Place, printList, printOne, sayMore, when } from "./place.ts";
import { reportNew } from "./steer-command.ts";
import { tame } from "./terminal.ts";

export interface LetterWords extends FilterWords {
  readonly status?: DeadLetter["status"];
  readonly search?: string;
  readonly limit: number;
}

export async function listLetters(words: LetterWords, place: Place): Promise<ExitCode> {
  const line = await valuesOf(words, "letters", place);
  const page = await place.client.listDeadLetters({
    limit: words.limit,
    status: words.status ?? (line.status as DeadLetter["status"] | undefined),
    q: words.search ?? line.text,
    runId: line.run === undefined ? undefined : await findRun(line.run, place.client),
  });
  printList(
    {
      items: page.items,
      body: page,
      id: ({ taskId }) => taskId,
      columns: [
        { head: "TASK", of: ({ taskId }) => taskId, kind: "id" },
        { head: "NODE", of: ({ label }) => label },
        { head: "CODE", of: ({ code }) => code },
        { head: "ATTEMPTS", of: ({ attempts }) => String(attempts) },
        { head: "AT", of: ({ at }) => when(at), kind: "when" },
        { head: "STATUS", of: ({ status }) => status, isWide: true },
        { head: "WORKER", of: ({ workerName }) => workerName ?? "", isWide: true },
        { head: "MESSAGE", of: ({ message }) => message, kind: "text" },
      ],
      none: "There is no dead letter.",
    },
    place,
  );
  sayMore(page, words.limit, place);
  return exitCodes.ok;
}

/** How far back a shortened id of a letter is looked for. */
const lettersMax = 1_000;

async function findLetter(word: string, { client }: Place): Promise<string> {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\./.test(word)) return word;
  const found: { id: string; name: string }[] = [];
  for await (const { taskId, label } of allItems((cursor) => client.listDeadLetters({ limit: 200, cursor }))) {
    found.push({ id: taskId, name: label });
    if (found.length >= lettersMax) break;
  }
  return pick(word, found, "dead letter", "astra letters list").id;
}

export async function requeueLetter(word: string, reason: string | undefined, place: Place): Promise<ExitCode> {
  const taskId = await findLetter(word, place);
  return reportNew(await place.client.requeueDeadLetter({ taskId, body: { ...(reason !== undefined && { reason }) } }), place);
}

export async function dismissLetter(word: string, reason: string | undefined, place: Place): Promise<ExitCode> {
  const taskId = await findLetter(word, place);
  await place.agree(`take the dead letter ${taskId} off the list`);
  const letter = await place.client.dismissDeadLetter({ taskId, body: { ...(reason !== undefined && { reason }) } });
  return printOne(letter, [`${letter.taskId} ${letter.status}`], place);
}

export interface AuditWords extends FilterWords {
  readonly action?: string;
  readonly actor?: string;
  readonly target?: string;
  readonly run?: string;
  readonly since?: string;
  readonly limit: number;
}

/** Pages may be short although more follows, so it is read until there are enough. */
export async function listAudit(words: AuditWords, place: Place): Promise<ExitCode> {
  const line = await valuesOf(words, "audit", place);
  const run = words.run ?? line.run;
  const actor = words.actor ?? line.actor;
  const isTable = !place.json && place.output !== "id";
  const names = isTable || actor !== undefined ? await userNames(place.client) : new Map<string, string>();
  const query = {
    action: words.action ?? line.action,
    actorId: actor === undefined ? undefined : actorIdOf(actor, names),
    targetId: words.target ?? line.target,
    runId: run === undefined ? undefined : await findRun(run, place.client),
    since: words.since ?? (line.since === undefined ? undefined : instantText(line.since, place.now())),
  };
  let asOf = 0;
  let nextCursor: string | null = null;
  const items = [];
  const all = allItems(async (cursor) => {
    const page = await place.client.listAudit({ ...query, limit: words.limit, cursor });
    asOf = page.asOf;
    nextCursor = page.nextCursor;
    return page;
  });
  for await (const item of all) {
    items.push(item);
    if (items.length >= words.limit) break;
  }
  printList(
    {
      items,
      body: { items, nextCursor, asOf },
      id: ({ eventId }) => eventId,
      columns: [
        { head: "AT", of: ({ createdAt }) => when(createdAt), kind: "when" },
        { head: "WHO", of: ({ actorId }) => (actorId === undefined ? "scheduler" : tame(names.get(actorId) ?? actorId)) },
        { head: "ACTION", of: ({ action }) => action },
        { head: "ON", of: ({ targetType }) => targetType },
        { head: "TARGET", of: ({ targetId }) => targetId ?? "", kind: "id" },
        { head: "OUTCOME", of: ({ metadata }) => String(metadata?.["outcome"] ?? "") },
        { head: "ACTOR", of: ({ actorId }) => actorId ?? "", isWide: true },
        { head: "EVENT", of: ({ eventId }) => eventId, isWide: true },
        { head: "METADATA", of: ({ metadata }) => JSON.stringify(metadata ?? {}), isWide: true },
      ],
      none: "Nothing was done that fits.",
    },
    place,
  );
  sayMore({ nextCursor }, words.limit, place);
  return exitCodes.ok;
}

export interface EventWords extends FilterWords {
  readonly follow?: boolean;
  readonly since?: string;
  readonly topics?: string;
  readonly run?: string;
  readonly worker?: string;
  readonly frameType?: string;
}

/** How long the stream may be silent before it is taken to have told everything, where it is not followed. */
const quietMs = 1_000;

async function eventsQuery(words: EventWords, place: Place) {
  const line = await valuesOf(words, "events", place);
  const run = words.run ?? line.run;
  return {
    after: words.since,
    topics: words.topics ?? line.topic,
    frameType: words.frameType,
    runId: run === undefined ? undefined : await findRun(run, place.client),
    nodeId: line.node,
    workerName: words.worker ?? line.worker,
    clientSessionId: line.client,
  };
}

/** One line an event. Without --follow it ends once everything up to now was told; what broke off before that is no end. */
export async function showEvents(words: EventWords, place: Place & { signal: AbortSignal }): Promise<ExitCode> {
  const { client, terminal, json, signal } = place;
  const stop = new AbortController();
  const query = await eventsQuery(words, place);
  let quiet = null as NodeJS.Timeout | null;
  const kept = keptOf(query);
  let isOpened = false;
  let isLost = false;
  let told = 0;
  // An event that is in no log has no place of its own: what follows it begins after the last one that has.
  let cursor = words.since ?? null;
  try {
    const events = client.events({
      ...query,
      signal: AbortSignal.any([signal, stop.signal]),
      onState: (state, why) => {
        // Nobody was ever there, or nobody waits for a return: then it is a failure like that of any other command.
        if (state === "lost" && (!isOpened || words.follow !== true)) throw why ?? new Error("the stream of events ended");
        if (state === "lost" && !isLost)
          terminal.say(`the scheduler at ${client.url} does not answer; reconnecting, ${kept.lost}`);
        else if (state === "open" && isLost) terminal.say(`connected again, ${kept.back}`);
        isLost = state === "lost";
        isOpened = true;
        if (words.follow !== true) quiet ??= setTimeout(() => stop.abort(), quietMs);
      },
      onGap: ({ message }) => terminal.complain(`events are missing here: ${message}\n`),
    });
    for await (const event of events) {
      // What is in no log comes for ever: it must not keep a look back from ending.
      if (event.id !== undefined) quiet?.refresh();
      cursor = event.id ?? cursor;
      told += 1;
      terminal.print(json ? JSON.stringify({ cursor, ...event }) : describeEvent(event));
    }
  } catch (cause) {
    if (stop.signal.aborted) {
      if (told === 0 && !json) terminal.say(nothingTold(words.since));
      return exitCodes.ok;
    }
    if (signal.aborted) return exitCodes.interrupted;
    throw cause;
  } finally {
    if (quiet !== null) clearTimeout(quiet);
  }
  return exitCodes.ok;
}

/** Topics of which nothing is in the log, and those of which not everything is. */
const volatileTopics: readonly string[] = ["wire", "wire.frame", "worker.heartbeat"];
const mixedTopics: readonly string[] = [...volatileTopics, "worker"];

/** What can be promised over a broken connection: only the log is told again. */
function keptOf({
  topics,
  runId,
  nodeId,
}: {
  topics: string | undefined;
  runId: string | undefined;
  nodeId: string | undefined;
}) {
  const named = topics === undefined || topics === "" || topics === "*" ? null : topics.split(",");
  // Without a topic everything is told but frames; heartbeats are about no run.
  const isMixed = named === null ? runId === undefined && nodeId === undefined : named.some((one) => mixedTopics.includes(one));
  if (named?.every((one) => volatileTopics.includes(one)) === true)
    return {
      lost: `what passes meanwhile is in no log and not told later (${named.join(", ")})`,
      back: "what passed meanwhile is missing",
    };
  if (isMixed)
    return { lost: "nothing of the log is missed", back: "nothing of the log missed; heartbeats and frames are in none" };
  return { lost: "nothing is missed", back: "nothing missed" };
}

const nothingTold = (since: string | undefined): string =>
  since === undefined
    ? "Nothing happened in this second. What was: --since 0; what comes: --follow."
    : `Nothing that fits happened after ${since}.`;

export function describeEvent({ id, occurredAt, type, scope, data }: ServerEvent): string {
  const { kind: _kind, ...rest } = data as Record<string, unknown>;
  const words = Object.entries(rest)
    .filter(([name]) => !["runId", "run", "nodes", "content", "artifacts", "at"].includes(name))
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  const about = scope.runId ?? scope.workerName ?? "-";
  return tame([id ?? "-", occurredAt, type, about, ...words].join(" "));
}
