// The audit: the tenant's log read from its end, of those facts that say who did what. Nothing else is stored for it.

import { type LoggedFact, type RunOrigin, readRunOrigin, runKey, type StoreReader } from "@astraflow/engine";
import { type AuditEvent, fault, type JsonObject, omitUndefined } from "@astraflow/protocol";
import { type OptionalTexts, unknownCursor } from "../documents/page-cursors.ts";
import { isoTime } from "../presentation/iso-time.ts";

/** Facts that are audit rows although they are called otherwise: what they are called here. */
const actionsOfFacts: Readonly<Record<string, string>> = {
  "task.granted": "task.dispatch",
  "run.created": "run.start",
  "task.refused": "task.result",
};
const auditPrefix = "audit.";

/** Facts that end a dispatch. */
const dispatchEndTypes = ["task.succeeded", "task.failed", "task.cancelled", "task.skipped", "task.retrying", "task.requeued"];
/** Ends of one run's dispatches that are read for a page of the audit; what became of the others is not said. */
const dispatchEndsReadMax = 2_000;

/** Stretches of the log that one answer looks at; a rare entry takes more than one page to find. */
const pagesReadMax = 8;

export interface AuditQuery extends OptionalTexts<"cursor" | "action" | "runId" | "actorId" | "targetType" | "targetId"> {
  readonly limit: number;
  /** Wall time in ms. */
  readonly since?: number | undefined;
}

/** Newest first. A page may be short, and have a cursor all the same. */
export async function listAuditEvents(reader: StoreReader, tenant: string, query: AuditQuery) {
  const { limit, runId, since = Number.NEGATIVE_INFINITY } = query;
  const facts = { tenant, after: 0, types: factTypesOf(query), ...(runId !== undefined && { subject: runKey(runId) }) };
  const items: AuditEvent[] = [];
  const toPage = (next: number | null, head: number) => ({ items, nextCursor: next === null ? null : String(next), asOf: head });
  let before = readPosition(query.cursor);
  for (let pagesRead = 1; pagesRead <= pagesReadMax; pagesRead += 1) {
    const asked = before;
    const page = await reader.events({ ...facts, before, limit });
    const about = await readDispatchDetails(reader, tenant, page.items);
    for (const entry of page.items) {
      if (entry.at < since) return toPage(null, page.head);
      before = entry.position;
      const event = presentAuditEvent(entry, about);
      if (isWanted(event, query)) items.push(event);
      if (items.length === limit) return toPage(before, page.head);
    }
    // Backwards, `next` is how far it has looked: nowhere, where there is nothing more.
    before = Math.min(before, page.next);
    const isEnd = page.next >= asked || before <= page.floor + 1;
    if (isEnd || pagesRead === pagesReadMax) return toPage(isEnd ? null : before, page.head);
  }
  throw fault("E.INTERNAL", "the audit was read without an end");
}

/** As much of the filter as the log itself can be asked for. */
function factTypesOf({ action }: AuditQuery): string[] {
  if (action === undefined) return [auditPrefix, ...Object.keys(actionsOfFacts)];
  const other = Object.entries(actionsOfFacts).find(([, name]) => name === action)?.[0];
  return [other ?? `${auditPrefix}${action}`];
}

const isWanted = (event: AuditEvent, query: AuditQuery): boolean =>
  (["action", "actorId", "targetType", "targetId"] as const).every(
    (field) => query[field] === undefined || event[field] === query[field],
  );

/** What the log entry of a dispatch does not say itself. */
interface DispatchDetails {
  /** Who started the runs whose tasks were dispatched, by run: the scheduler acts for them. */
  readonly starters: ReadonlyMap<string, RunOrigin>;
  /** By the position of the dispatch; absent where it was not found. */
  readonly outcomes: ReadonlyMap<number, string>;
}

async function readDispatchDetails(
  reader: StoreReader,
  tenant: string,
  entries: readonly LoggedFact[],
): Promise<DispatchDetails> {
  const dispatches = Map.groupBy(
    entries.filter(({ type }) => type === "task.granted"),
    idOfSubject,
  );
  const found = await Promise.all([...dispatches.keys()].map((run) => reader.page({ page: "run", tenant, run, tasksMax: 0 })));
  const starters = found.flatMap(({ detail }) => (detail === null ? [] : [[detail.run.id, readRunOrigin(detail.run)] as const]));
  const outcomes = await Promise.all([...dispatches].map(([run, ofRun]) => readOutcomes(reader, tenant, run, ofRun)));
  return { starters: new Map(starters), outcomes: new Map(outcomes.flat()) };
}

/** What became of each dispatch: the first end of its task that follows it in the log of its run, or that there is none yet. */
async function readOutcomes(
  reader: StoreReader,
  tenant: string,
  run: string,
  dispatches: readonly LoggedFact[],
): Promise<(readonly [number, string])[]> {
  const after = Math.min(...dispatches.map(({ position }) => position));
  const query = { tenant, after, subject: runKey(run), types: dispatchEndTypes, limit: dispatchEndsReadMax };
  const { items } = await reader.events(query);
  return dispatches.flatMap(({ position, data }) => {
    const end = items.find((entry) => entry.position > position && entry.data["task"] === data["task"]);
    if (end !== undefined) return [[position, outcomeOf(end)] as const];
    return items.length < dispatchEndsReadMax ? [[position, "open"] as const] : [];
  });
}

function outcomeOf({ type, data }: LoggedFact): string {
  if (type === "task.succeeded") return "ok";
  const { code } = (data["error"] ?? data) as { readonly code?: unknown };
  return typeof code === "string" ? code : type.slice("task.".length);
}

function presentAuditEvent(entry: LoggedFact, { starters, outcomes }: DispatchDetails): AuditEvent {
  const { position, at, type, data } = entry;
  const action = actionsOfFacts[type] ?? type.slice(auditPrefix.length);
  const base = { eventId: String(position), createdAt: isoTime(at), action };
  const { by, target, targetType, ...rest } = data as Record<string, unknown>;
  const actor = typeof by === "string" && by !== "" ? { actorId: by } : {};
  if (type === "task.granted") {
    const { task } = data;
    const { by: starter, corr } = starters.get(idOfSubject(entry)) ?? {};
    const outcome = outcomes.get(position);
    return {
      ...base,
      ...(starter !== undefined && { actorId: starter }),
      targetType: "task",
      ...(typeof task === "string" && { targetId: task }),
      metadata: { ...rest, ...omitUndefined({ corr, outcome }) } as JsonObject,
    };
  }
  if (type === "task.refused") {
    // Who sent it is the worker of the metadata: an actor is a user.
    const { task, code: outcome, ...metadata } = rest;
    return { ...base, targetType: "task", targetId: String(task), metadata: { ...metadata, outcome } as JsonObject };
  }
  if (type === "run.created") {
    const metadata = { ...rest, outcome: "ok" } as JsonObject;
    return { ...base, ...actor, targetType: "run", targetId: idOfSubject(entry), metadata };
  }
  return {
    ...base,
    ...actor,
    targetType: String(targetType ?? ""),
    ...(typeof target === "string" && { targetId: target }),
    metadata: rest as JsonObject,
  };
}

/** Of `run/<id>`. */
const idOfSubject = ({ subject }: LoggedFact): string => subject.slice(subject.indexOf("/") + 1);

/** Newer than anything there is, where no cursor is given. */
function readPosition(cursor: string | undefined): number {
  const position = cursor === undefined || /^[0-9]{1,16}$/.test(cursor) ? Number(cursor ?? Number.MAX_SAFE_INTEGER) : Number.NaN;
  if (Number.isSafeInteger(position)) return position;
  throw unknownCursor();
}
