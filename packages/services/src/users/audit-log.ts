// The audit: the tenant's log read from its end, of those facts that say who did what. Nothing else is stored for it.

import { type LoggedFact, type RunOrigin, readRunOrigin, runKey, type StoreReader } from "@astraflow/engine";
import { type AuditEvent, fault, type JsonObject } from "@astraflow/protocol";
import { invalidCursor, type OptionalTexts } from "../documents/page-cursors.ts";
import { isoTime } from "../presentation/iso-time.ts";

/** Facts that are audit rows although they are called otherwise: what they are called here. */
const actionsOfFacts: Readonly<Record<string, string>> = { "task.granted": "task.dispatch", "run.created": "run.start" };
const auditPrefix = "audit.";

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
    const starters = await readRunStarters(reader, tenant, page.items);
    for (const entry of page.items) {
      if (entry.at < since) return toPage(null, page.head);
      before = entry.position;
      const event = presentAuditEvent(entry, starters);
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

/** Who started the runs whose tasks were dispatched: the scheduler acts for them. */
async function readRunStarters(reader: StoreReader, tenant: string, entries: readonly LoggedFact[]) {
  const runs = new Set(entries.filter(({ type }) => type === "task.granted").map(idOfSubject));
  const found = await Promise.all([...runs].map((run) => reader.page({ page: "run", tenant, run, tasksMax: 0 })));
  return new Map(found.flatMap(({ detail }) => (detail === null ? [] : [[detail.run.id, readRunOrigin(detail.run)] as const])));
}

function presentAuditEvent(entry: LoggedFact, starters: ReadonlyMap<string, RunOrigin>): AuditEvent {
  const { position, at, type, data } = entry;
  const action = actionsOfFacts[type] ?? type.slice(auditPrefix.length);
  const base = { eventId: String(position), createdAt: isoTime(at), action };
  const { by, target, targetType, ...rest } = data as Record<string, unknown>;
  const actor = typeof by === "string" && by !== "" ? { actorId: by } : {};
  if (type === "task.granted") {
    const { task } = data;
    const { by: starter, corr } = starters.get(idOfSubject(entry)) ?? {};
    return {
      ...base,
      ...(starter !== undefined && { actorId: starter }),
      targetType: "task",
      ...(typeof task === "string" && { targetId: task }),
      metadata: { ...rest, ...(corr !== undefined && { corr }), outcome: "ok" } as JsonObject,
    };
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
  throw invalidCursor();
}
