// The audit: a reading of the tenant's log from its end, of those facts that say who did what. Nothing is kept for it but the log.

import { type EventQuery, type LoggedFact, type RunOrigin, readRunOrigin, runKey, type StoreReader } from "@astraflow/engine";
import { type AuditEvent, fault, type JsonObject } from "@astraflow/protocol";
import { isoTime } from "@astraflow/services";
import { type RestCall, type RouteHandler, readPageLimit } from "../requests/rest-call.ts";

export interface AuditRoutesOptions {
  readonly reader: StoreReader;
}

/** Facts that are audit rows although they are called otherwise: what they are called here. */
const actionsOfFacts: Readonly<Record<string, string>> = { "task.granted": "task.dispatch", "run.created": "run.start" };
const auditPrefix = "audit.";

/** Stretches of the log that one answer looks at; a rare entry takes more than one page to find. */
const pagesReadMax = 8;

export function auditHandlers({ reader }: AuditRoutesOptions): Record<"listAuditEvents" | "listAudit", RouteHandler> {
  const list: RouteHandler = async (call) => {
    const limit = readPageLimit(call.query);
    const since = readSince(call.query["since"]);
    const query = logQueryOf(call);
    const isWanted = auditFilterOf(call);
    const items: AuditEvent[] = [];
    let before = readCursor(call.query["cursor"]);
    for (let pagesRead = 0; pagesRead < pagesReadMax; pagesRead += 1) {
      const asked = before;
      const page = await reader.events({ ...query, before, limit });
      const starters = await readRunStarters(reader, call.identity.tenant, page.items);
      const tooOld = page.items.find((entry) => since !== null && entry.at < since);
      for (const entry of page.items) {
        if (entry === tooOld) return auditPage(items, null, page.head);
        before = entry.position;
        const event = presentAuditEvent(entry, starters);
        if (isWanted(event)) items.push(event);
        if (items.length === limit) return auditPage(items, before, page.head);
      }
      // Backwards, `next` is how far it has looked: nowhere, where there is nothing more.
      before = Math.min(before, page.next);
      const isEnd = page.next >= asked || before <= page.floor + 1;
      if (isEnd || pagesRead === pagesReadMax - 1) return auditPage(items, isEnd ? null : before, page.head);
    }
    throw fault("E.INTERNAL", "the audit was read without an end");
  };
  return { listAuditEvents: list, listAudit: list };
}

const auditPage = (items: readonly AuditEvent[], next: number | null, head: number) => ({
  body: { items, nextCursor: next === null ? null : String(next), asOf: head },
});

/** As much of the filter as the log itself can be asked for. */
function logQueryOf(call: RestCall): Omit<EventQuery, "before" | "limit"> {
  const { action, runId } = call.query;
  const other = Object.entries(actionsOfFacts).find(([, name]) => name === action)?.[0];
  const types = action === undefined ? [auditPrefix, ...Object.keys(actionsOfFacts)] : [other ?? `${auditPrefix}${action}`];
  return { tenant: call.identity.tenant, after: 0, types, ...(runId !== undefined && { subject: runKey(runId) }) };
}

function auditFilterOf({ query }: RestCall): (event: AuditEvent) => boolean {
  const { action, actorId, targetType, targetId } = query;
  return (event) =>
    (action === undefined || event.action === action) &&
    (actorId === undefined || event.actorId === actorId) &&
    (targetType === undefined || event.targetType === targetType) &&
    (targetId === undefined || event.targetId === targetId);
}

/** Who started the runs whose tasks were dispatched: the scheduler acts for them. */
async function readRunStarters(
  reader: StoreReader,
  tenant: string,
  entries: readonly LoggedFact[],
): Promise<Map<string, RunOrigin>> {
  const dispatches = entries.filter(({ type }) => type === "task.granted");
  const runs = [...new Set(dispatches.map(({ subject }) => subject.slice(subject.indexOf("/") + 1)))];
  const found = await Promise.all(runs.map((run) => reader.page({ page: "run", tenant, run, tasksMax: 0 })));
  return new Map(found.flatMap(({ detail }) => (detail === null ? [] : [[detail.run.id, readRunOrigin(detail.run)] as const])));
}

function presentAuditEvent(
  { position, at, type, subject, data }: LoggedFact,
  starters: ReadonlyMap<string, RunOrigin>,
): AuditEvent {
  const base = {
    eventId: String(position),
    createdAt: isoTime(at),
    action: actionsOfFacts[type] ?? type.slice(auditPrefix.length),
  };
  const { by, target, targetType, ...rest } = data as Record<string, unknown>;
  const actor = typeof by === "string" && by !== "" ? { actorId: by } : {};
  if (type === "task.granted") {
    const { task } = data;
    const { by: starter, corr } = starters.get(subject.slice(subject.indexOf("/") + 1)) ?? {};
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
    return { ...base, ...actor, targetType: "run", targetId: subject.slice(subject.indexOf("/") + 1), metadata };
  }
  return {
    ...base,
    ...actor,
    targetType: String(targetType ?? ""),
    ...(typeof target === "string" && { targetId: target }),
    metadata: rest as JsonObject,
  };
}

/** Newer than anything there is. */
const newestPosition = Number.MAX_SAFE_INTEGER;

function readCursor(cursor: string | undefined): number {
  if (cursor === undefined) return newestPosition;
  const position = /^[0-9]{1,16}$/.test(cursor) ? Number(cursor) : Number.NaN;
  if (Number.isSafeInteger(position)) return position;
  throw fault("E.REQUEST.INVALID", "query.cursor must be the nextCursor of a page before", { path: "query.cursor" });
}

function readSince(text: string | undefined): number | null {
  if (text === undefined) return null;
  const at = /^\d{4}-\d{2}-\d{2}T[0-9:.]+(Z|[+-]\d{2}:\d{2})$/i.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(at)) return at;
  throw fault("E.REQUEST.INVALID", "query.since must be an instant with its zone, like 2026-01-05T09:00:00Z", {
    path: "query.since",
  });
}
