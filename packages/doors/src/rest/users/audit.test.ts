import { createSchemaReader, routes } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { openRestCallFixture, type RestCallFixture } from "../../testing/rest-fixture.ts";

const put = (
  fixture: RestCallFixture,
  type: string,
  data: object,
  more: { subject?: string; at?: number; tenant?: string } = {},
): void => {
  const { subject = "run/r1", at = 1_000, tenant = "default" } = more;
  const position = fixture.docs.log.filter((entry) => entry.tenant === tenant).length + 1;
  fixture.docs.log.push({ tenant, position, at, subject: subject as "run/r1", type, data: data as Record<string, unknown> });
};
type Event = { eventId: string; action: string; actorId?: string; targetType: string; targetId?: string; metadata: object };
const itemsOf = (answer: { body: Record<string, unknown> }): Event[] => answer.body["items"] as Event[];

function fill(fixture: RestCallFixture): void {
  put(fixture, "run.created", { by: "ann", workflow: "w1", client: "c1" });
  put(fixture, "task.granted", { task: "r1.0", worker: "default/w-1", fence: 1 });
  put(fixture, "task.succeeded", { task: "r1.0" });
  const drain = { by: "bob", corr: "q1", target: "w-1", targetType: "worker", outcome: "ok" };
  put(fixture, "audit.worker.drain", drain, { subject: "worker/default/w-1", at: 2_000 });
  put(
    fixture,
    "audit.run.cancel",
    { by: "ann", corr: "q2", target: "r1", targetType: "run", outcome: "E.RUN.TERMINAL" },
    { at: 3_000 },
  );
  put(fixture, "audit.worker.kick", { by: "eve", target: "x", targetType: "worker", outcome: "ok" }, { tenant: "other" });
}

describe("the audit", () => {
  it("[A92] the audit log shows what was done, by whom and how it ended, newest first, including dispatches and run starts", async () => {
    const fixture = openRestCallFixture();
    fill(fixture);

    const { body } = await fixture.callRoute("listAudit");

    expect(
      createSchemaReader(routes.listAudit.response, { code: "E.INTERNAL", subject: "answer", unknownKeys: "refuse" }).read(body),
    ).toEqual(body);
    expect(body).toEqual({
      items: [
        {
          eventId: "5",
          createdAt: "1970-01-01T00:00:03.000Z",
          action: "run.cancel",
          actorId: "ann",
          targetType: "run",
          targetId: "r1",
          metadata: { corr: "q2", outcome: "E.RUN.TERMINAL" },
        },
        {
          eventId: "4",
          createdAt: "1970-01-01T00:00:02.000Z",
          action: "worker.drain",
          actorId: "bob",
          targetType: "worker",
          targetId: "w-1",
          metadata: { corr: "q1", outcome: "ok" },
        },
        {
          eventId: "2",
          createdAt: "1970-01-01T00:00:01.000Z",
          action: "task.dispatch",
          targetType: "task",
          targetId: "r1.0",
          metadata: { task: "r1.0", worker: "default/w-1", fence: 1, outcome: "ok" },
        },
        {
          eventId: "1",
          createdAt: "1970-01-01T00:00:01.000Z",
          action: "run.start",
          actorId: "ann",
          targetType: "run",
          targetId: "r1",
          metadata: { workflow: "w1", client: "c1", outcome: "ok" },
        },
      ],
      nextCursor: null,
      asOf: 5,
    });
    expect((await fixture.callRoute("listAuditEvents")).body).toEqual(body);
    expect((await fixture.callRoute("listAudit", { token: "viewer" })).status).toBe(403);
  });

  it.each([
    [{ action: "worker.drain" }, ["4"]],
    [{ action: "task.dispatch" }, ["2"]],
    [{ action: "run.start" }, ["1"]],
    [{ action: "worker" }, []],
    [{ actorId: "ann" }, ["5", "1"]],
    [{ targetType: "worker" }, ["4"]],
    [{ targetId: "r1.0" }, ["2"]],
    [{ runId: "r1" }, ["5", "2", "1"]],
    [{ runId: "r1", actorId: "bob" }, []],
    [{ since: "1970-01-01T00:00:02Z" }, ["5", "4"]],
  ])("[A93] the audit log filtered by %j contains the entries %j", async (query, ids) => {
    const fixture = openRestCallFixture();
    fill(fixture);

    expect(itemsOf(await fixture.callRoute("listAudit", { query: query as never })).map(({ eventId }) => eventId)).toEqual(ids);
  });

  it("[A93] the audit log is paged to its end, with each entry once", async () => {
    const fixture = openRestCallFixture();
    for (let n = 0; n < 25; n += 1)
      put(fixture, n % 3 === 0 ? "audit.run.skip" : "audit.run.retry", { by: "ann", target: "r1", targetType: "run" });
    const seen: string[] = [];
    for (let cursor: string | undefined = ""; cursor !== undefined; ) {
      const { body } = await fixture.callRoute("listAudit", {
        query: { limit: "2", action: "run.skip", ...(cursor !== "" && { cursor }) },
      });
      seen.push(...(body["items"] as Event[]).map(({ eventId }) => eventId));
      cursor = (body["nextCursor"] as string | null) ?? undefined;
    }

    expect(seen).toEqual(["25", "22", "19", "16", "13", "10", "7", "4", "1"]);
  });

  it("[A93] the audit log scans a bounded stretch per request, and returns a cursor to continue even if it found nothing", async () => {
    const fixture = openRestCallFixture();
    let looks = 0;
    fixture.docs.reader.events = async ({ before = 0 }) => {
      looks += 1;
      return { items: [], next: Math.min(before, 1_000_000) - 5_000, head: 1_000_000, floor: 10 };
    };

    const { body } = await fixture.callRoute("listAudit");

    expect([body["items"], body["nextCursor"], looks]).toEqual([[], String(1_000_000 - 8 * 5_000), 8]);
    fixture.docs.reader.events = async () => ({ items: [], next: 11, head: 1_000_000, floor: 10 });
    expect((await fixture.callRoute("listAudit", { query: { cursor: "5000" } })).body["nextCursor"]).toBeNull();
  });
});
