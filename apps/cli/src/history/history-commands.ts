// `astra letters`, `astra audit` and `astra events`: dead letters, audit entries and the live stream of events.

import { type DeadLetter, omitUndefined, type ServerEvent } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { type CommandContext, printItem, printPage, type TextInput } from "../api/command-context.ts";
import { type FilterFlags, type ListFlags, resolveFilter, toIsoInstant } from "../lookup/list-filters.ts";
import { findByNameOrId, findRunIdIfGiven, searchedItemsMax } from "../lookup/name-lookup.ts";
import { readListPage, readPages } from "../lookup/pages.ts";
import { CliFailure, type ExitCode, exitCodes } from "../output/cli-failure.ts";
import { formatInstant } from "../output/format.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { printNewRun } from "../runs/change-commands.ts";

export async function listDeadLetters(
  context: CommandContext,
  flags: ListFlags & TextInput<never, "search"> & { status?: DeadLetter["status"] },
): Promise<ExitCode> {
  const line = await resolveFilter(flags, "letters", context);
  const query = {
    status: flags.status ?? (line.status as DeadLetter["status"] | undefined),
    q: flags.search ?? line.text,
    runId: await findRunIdIfGiven(line.run, context.client),
  };
  const page = await readListPage(flags, (paging) => context.client.listDeadLetters({ ...paging, ...query }));
  return printPage(context, page, {
    id: ({ taskId }) => taskId,
    columns: [
      { header: "TASK", value: ({ taskId }) => taskId, kind: "id", isKept: true },
      { header: "STATUS", value: ({ status }) => status, isKept: true },
      { header: "WORKER", value: ({ workerName }) => workerName ?? "", isKept: true },
      { header: "NODE", value: ({ label }) => label },
      { header: "CODE", value: ({ code }) => code },
      { header: "ATTEMPTS", value: ({ attempts }) => String(attempts) },
      { header: "AT", value: ({ at }) => formatInstant(at), kind: "when" },
      { header: "MESSAGE", value: ({ message }) => message, kind: "text" },
    ],
    emptyMessage: "No dead letters.",
  });
}

async function findDeadLetterId(nameOrId: string, { client }: CommandContext): Promise<string> {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\./.test(nameOrId)) return nameOrId;
  const { items } = await readPages((cursor) => client.listDeadLetters({ limit: 200, cursor }), searchedItemsMax);
  const named = items.map(({ taskId, label }) => ({ id: taskId, name: label }));
  return findByNameOrId(nameOrId, named, "dead letter", "astra letters list").id;
}

type DeadLetterInput = TextInput<"task", "reason">;

export async function requeueDeadLetter(context: CommandContext, { task, reason }: DeadLetterInput): Promise<ExitCode> {
  const taskId = await findDeadLetterId(task, context);
  return printNewRun(context, await context.client.requeueDeadLetter({ taskId, body: omitUndefined({ reason }) }));
}

export async function dismissDeadLetter(context: CommandContext, { task, reason }: DeadLetterInput): Promise<ExitCode> {
  const taskId = await findDeadLetterId(task, context);
  await context.confirm(`dismiss dead letter ${taskId}`);
  const letter = await context.client.dismissDeadLetter({ taskId, body: omitUndefined({ reason }) });
  return printItem(context, letter, `${letter.taskId} ${letter.status}`);
}

export async function listAudit(
  context: CommandContext,
  flags: ListFlags & TextInput<never, "action" | "actor" | "target" | "run" | "since">,
): Promise<ExitCode> {
  const line = await resolveFilter(flags, "audit", context);
  const actor = flags.actor ?? line.actor;
  const isTable = !context.json && context.output !== "id";
  const names = isTable || actor !== undefined ? await loadUserNames(context.client) : new Map<string, string>();
  const query = {
    action: flags.action ?? line.action,
    actorId: actor === undefined ? undefined : resolveActorId(actor, names),
    targetId: flags.target ?? line.target,
    runId: await findRunIdIfGiven(flags.run ?? line.run, context.client),
    since: flags.since ?? toIsoInstant(line.since, context.now()),
  };
  const page = await readListPage(flags, (paging) => context.client.listAudit({ ...query, ...paging }));
  return printPage(context, page, {
    id: ({ eventId }) => eventId,
    columns: [
      { header: "AT", value: ({ createdAt }) => formatInstant(createdAt), kind: "when" },
      {
        header: "WHO",
        value: ({ actorId }) => (actorId === undefined ? "scheduler" : (names.get(actorId) ?? actorId)),
        isKept: true,
      },
      { header: "ACTION", value: ({ action }) => action, isKept: true },
      { header: "ON", value: ({ targetType }) => targetType },
      { header: "TARGET", value: ({ targetId }) => targetId ?? "", kind: "id" },
      { header: "OUTCOME", value: ({ metadata }) => String(metadata?.["outcome"] ?? ""), isKept: true },
      { header: "ACTOR", value: ({ actorId }) => actorId ?? "", isWide: true },
      { header: "EVENT", value: ({ eventId }) => eventId, isWide: true },
      { header: "METADATA", value: ({ metadata }) => JSON.stringify(metadata ?? {}), isWide: true },
    ],
    emptyMessage: "No audit entries match.",
  });
}
/** Users whose names are read for the audit; any further user is shown by id. */
const usersMax = 1_000;

/** Name by id; only their own for callers who may not list users. */
async function loadUserNames(client: Client): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  try {
    const { items } = await readPages((cursor) => client.listUsers({ limit: 200, cursor }), usersMax);
    for (const { userId, username } of items) names.set(userId, username);
  } catch (cause) {
    if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.notAllowed) throw cause;
    const { userId, username } = await client.getOwnUser();
    names.set(userId, username);
  }
  return names;
}

/** The id of the user with that name; any other text is taken as an id. */
function resolveActorId(nameOrId: string, names: ReadonlyMap<string, string>): string {
  const lowerCase = nameOrId.toLowerCase();
  for (const [userId, username] of names) if (username.toLowerCase() === lowerCase) return userId;
  return nameOrId;
}

type EventFlags = FilterFlags & TextInput<never, "since" | "topics" | "run" | "worker" | "frameType"> & { follow?: boolean };

/** Without --follow, a stream that is silent for this long has sent all past events. */
const idleEndMs = 1_000;

async function buildEventQuery(flags: EventFlags, context: CommandContext) {
  const line = await resolveFilter(flags, "events", context);
  return {
    after: flags.since,
    topics: flags.topics ?? line.topic,
    frameType: flags.frameType,
    runId: await findRunIdIfGiven(flags.run ?? line.run, context.client),
    nodeId: line.node,
    workerName: flags.worker ?? line.worker,
    clientSessionId: line.client,
  };
}

/** Prints one line per event. Without --follow it ends after all past events; a lost connection before that is a failure. */
export async function streamEvents(context: CommandContext, flags: EventFlags): Promise<ExitCode> {
  const { client, terminal, json, signal } = context;
  const stop = new AbortController();
  const query = await buildEventQuery(flags, context);
  let idleTimer = null as NodeJS.Timeout | null;
  const guarantee = describeReplayGuarantee(query);
  let isOpened = false;
  let isLost = false;
  let printedCount = 0;
  // An event that is not stored has no position of its own and gets the cursor of the last stored one.
  let cursor = flags.since ?? null;
  try {
    const events = client.events({
      ...query,
      signal: AbortSignal.any([signal, stop.signal]),
      onState: (state, why) => {
        // Never connected, or not following: a failure as of any other command.
        if (state === "lost" && (!isOpened || flags.follow !== true)) throw why ?? new Error("the stream of events ended");
        if (state === "lost" && !isLost)
          terminal.info(`the scheduler at ${client.url} does not answer; reconnecting, ${guarantee.lost}`);
        else if (state === "open" && isLost) terminal.info(`Reconnected; ${guarantee.back}.`);
        isLost = state === "lost";
        isOpened = true;
        if (flags.follow !== true) idleTimer ??= setTimeout(() => stop.abort(), idleEndMs);
      },
      onGap: ({ message }) => terminal.error(`Some events are missing: ${message}\n`),
    });
    for await (const event of events) {
      // Events that are not stored never end, so they do not extend the time.
      if (event.id !== undefined) idleTimer?.refresh();
      cursor = event.id ?? cursor;
      printedCount += 1;
      terminal.print(json ? JSON.stringify({ cursor, ...event }) : formatEvent(event));
    }
  } catch (cause) {
    if (stop.signal.aborted) {
      if (printedCount === 0 && !json) terminal.info(noEventsMessage(flags.since));
      return exitCodes.ok;
    }
    if (signal.aborted) return exitCodes.interrupted;
    throw cause;
  } finally {
    if (idleTimer !== null) clearTimeout(idleTimer);
  }
  return exitCodes.ok;
}

/** Topics whose events are not stored, and topics with some events that are not. */
const volatileTopics: readonly string[] = ["wire", "wire.frame", "worker.heartbeat"];
const mixedTopics: readonly string[] = [...volatileTopics, "worker"];

/** What is guaranteed after a lost connection: only stored events are sent again. */
function describeReplayGuarantee({ topics, runId, nodeId }: TextInput<never, "topics" | "runId" | "nodeId">) {
  const named = topics === undefined || topics === "" || topics === "*" ? null : topics.split(",");
  // Without a topic everything but frames is sent; heartbeats belong to no run.
  const isMixed = named === null ? runId === undefined && nodeId === undefined : named.some((one) => mixedTopics.includes(one));
  if (named?.every((one) => volatileTopics.includes(one)) === true) {
    const lost = `events of ${named.join(", ")} are not stored; those sent meanwhile are lost`;
    return { lost, back: "events sent meanwhile are lost" };
  }
  if (isMixed)
    return { lost: "no stored event is lost", back: "no stored event was lost (heartbeats and frames are not stored)" };
  return { lost: "no event is lost", back: "no event was lost" };
}

const noEventsMessage = (since: string | undefined): string =>
  since === undefined
    ? "No events right now. Use --since 0 for past events or --follow to wait for new ones."
    : `No matching events after ${since}.`;

export function formatEvent({ id, occurredAt, type, scope, data }: ServerEvent): string {
  const { kind: _kind, ...rest } = data as Record<string, unknown>;
  const parts = Object.entries(rest)
    .filter(([name]) => !["runId", "run", "nodes", "content", "artifacts", "at"].includes(name))
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  const about = scope.runId ?? scope.workerName ?? "-";
  return stripControlCharacters([id ?? "-", occurredAt, type, about, ...parts].join(" "));
}
