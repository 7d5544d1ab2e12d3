// `astra letters`, `astra audit` and `astra events`: what failed for good, who did what, and what happens now.

import { allItems } from "@astraflow/client";
import type { DeadLetter, ServerEvent } from "@astraflow/protocol";
import { type ExitCode, exitCodes } from "./failure.ts";
import { pick } from "./finding.ts";
import { type Place, printList, printOne, when } from "./place.ts";
import { reportNew } from "./steer-command.ts";
import { tame } from "./terminal.ts";

export interface LetterWords {
  readonly status?: DeadLetter["status"];
  readonly search?: string;
  readonly limit: number;
}

export async function listLetters(words: LetterWords, place: Place): Promise<ExitCode> {
  const page = await place.client.listDeadLetters({ limit: words.limit, status: words.status, q: words.search });
  printList(
    {
      items: page.items,
      body: page,
      id: ({ taskId }) => taskId,
      columns: [
        { head: "TASK", of: ({ taskId }) => taskId },
        { head: "NODE", of: ({ label }) => label },
        { head: "CODE", of: ({ code }) => code },
        { head: "ATTEMPTS", of: ({ attempts }) => String(attempts) },
        { head: "AT", of: ({ at }) => when(at) },
        { head: "STATUS", of: ({ status }) => status, isWide: true },
        { head: "WORKER", of: ({ workerName }) => workerName ?? "", isWide: true },
        { head: "MESSAGE", of: ({ message }) => message },
      ],
      none: "There is no dead letter.",
    },
    place,
  );
  if (page.nextCursor !== null && !place.json) place.terminal.say(`more: --limit ${Math.min(200, words.limit * 2)}`);
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
  const letter = await place.client.dismissDeadLetter({ taskId, body: { ...(reason !== undefined && { reason }) } });
  return printOne(letter, [`${letter.taskId} ${letter.status}`], place);
}

export interface AuditWords {
  readonly action?: string;
  readonly actor?: string;
  readonly target?: string;
  readonly run?: string;
  readonly since?: string;
  readonly limit: number;
}

/** Pages may be short although more follows, so it is read until there are enough. */
export async function listAudit(words: AuditWords, place: Place): Promise<ExitCode> {
  const query = { action: words.action, actorId: words.actor, targetId: words.target, runId: words.run, since: words.since };
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
  return printList(
    {
      items,
      body: { items, nextCursor, asOf },
      id: ({ eventId }) => eventId,
      columns: [
        { head: "AT", of: ({ createdAt }) => when(createdAt) },
        { head: "WHO", of: ({ actorId }) => actorId ?? "scheduler" },
        { head: "ACTION", of: ({ action }) => action },
        { head: "TARGET", of: ({ targetType, targetId }) => `${targetType} ${targetId ?? ""}`.trim() },
        { head: "OUTCOME", of: ({ metadata }) => String(metadata?.["outcome"] ?? "") },
        { head: "EVENT", of: ({ eventId }) => eventId, isWide: true },
        { head: "METADATA", of: ({ metadata }) => JSON.stringify(metadata ?? {}), isWide: true },
      ],
      none: "Nothing was done that fits.",
    },
    place,
  );
}

export interface EventWords {
  readonly follow?: boolean;
  readonly since?: string;
  readonly topics?: string;
  readonly run?: string;
  readonly worker?: string;
}

/** How long the stream may be silent before it is taken to have told everything, where it is not followed. */
const quietMs = 1_000;

/** One line an event. Without --follow it ends once everything up to now was told. */
export async function showEvents(
  words: EventWords,
  { client, terminal, json, signal }: Place & { signal: AbortSignal },
): Promise<ExitCode> {
  const stop = new AbortController();
  const query = { after: words.since, topics: words.topics, runId: words.run, workerName: words.worker };
  const quiet = words.follow === true ? null : setTimeout(() => stop.abort(), quietMs);
  let isLost = false;
  try {
    const events = client.events({
      ...query,
      signal: AbortSignal.any([signal, stop.signal]),
      onState: (state) => {
        if (state === "lost" && !isLost)
          terminal.say(`the scheduler at ${client.url} does not answer; reconnecting, nothing is missed`);
        else if (state === "open" && isLost) terminal.say("connected again, nothing missed");
        isLost = state === "lost";
      },
      onGap: ({ message }) => terminal.complain(`events are missing here: ${message}\n`),
    });
    for await (const event of events) {
      quiet?.refresh();
      terminal.print(json ? JSON.stringify({ cursor: event.id, ...event }) : describeEvent(event));
    }
  } catch (cause) {
    if (stop.signal.aborted) return exitCodes.ok;
    if (signal.aborted) return exitCodes.interrupted;
    throw cause;
  } finally {
    if (quiet !== null) clearTimeout(quiet);
  }
  return exitCodes.ok;
}

export function describeEvent({ id, occurredAt, type, scope, data }: ServerEvent): string {
  const { kind: _kind, ...rest } = data as Record<string, unknown>;
  const words = Object.entries(rest)
    .filter(([name]) => !["runId", "run", "nodes", "content", "artifacts", "at"].includes(name))
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  const about = scope.runId ?? scope.workerName ?? "-";
  return tame([id, occurredAt, type, about, ...words].join(" "));
}
