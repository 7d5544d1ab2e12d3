import { describe, expect, it } from "vitest";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { formatEvent, listAudit, listDeadLetters, streamEvents } from "./history-commands.ts";

const runId = "01a1dfbd-5bc1-7000-bf5a-574d1aa3f763";
const nodeId = "11111111-1111-4111-8111-111111111111";

describe("what has happened", () => {
  it("[L58] audit list shows all user names if users may be listed, else only the caller's own, and filters by user name or id", async () => {
    const entry = (actorId?: string) => ({
      eventId: "e",
      createdAt: "2026-01-01T00:00:00Z",
      action: "worker.drain",
      targetType: "worker",
      ...(actorId !== undefined && { actorId }),
    });
    const entries = { items: [entry("u-1"), entry("u-2"), entry("ops"), entry()], nextCursor: null, asOf: 1 };
    const users = [
      { userId: "u-1", username: "ada" },
      { userId: "u-2", username: "bo\u001b[2J" },
    ];
    const admin = createCommandFixture({ listAudit: entries, listUsers: { items: users, nextCursor: null, asOf: 1 } });
    const viewer = createCommandFixture({
      listAudit: entries,
      listUsers: () => {
        throw new CliFailure(exitCodes.notAllowed, { error: "E.AUTH.FORBIDDEN", message: "no" });
      },
      getOwnUser: users[0],
    });

    await listAudit(admin.context, { limit: 9, actor: "Ada" });
    await listAudit(viewer.context, { limit: 9, actor: "ops" });

    const who = (out: string) =>
      out
        .trim()
        .split("\n")
        .slice(1)
        .map((line) => line.split(/ {2,}/)[1]);
    expect(who(admin.stdout())).toEqual(["ada", "bo [2J", "ops", "scheduler"]);
    expect(who(viewer.stdout())).toEqual(["ada", "u-2", "ops", "scheduler"]);
    expect(admin.calls.at(-1)?.[1]).toMatchObject({ actorId: "u-1" });
    expect(viewer.calls.at(-1)?.[1]).toMatchObject({ actorId: "ops" });
  });

  it.for([
    ["wire", "events of wire are not stored; those sent meanwhile are lost", "events sent meanwhile are lost"],
    ["run,worker", "no stored event is lost", "no stored event was lost (heartbeats and frames are not stored)"],
    ["run,node", "no event is lost", "no event was lost"],
  ] as const)("[L60] after a lost connection, events of %s promise only what the log stores", async ([topics, lost, back]) => {
    const fixture = createCommandFixture({
      async *events({ onState }: { onState: (state: "open" | "lost", why: Error | null) => void }) {
        onState("open", null);
        onState("lost", new Error("away"));
        onState("open", null);
        yield* [];
      },
    });

    await streamEvents(fixture.context, { follow: true, topics });

    expect(fixture.stderr()).toBe(`the scheduler at http://s does not answer; reconnecting, ${lost}\nReconnected; ${back}.\n`);
  });

  it("[L20] audit list reads on over short pages until it has as many entries as requested", async () => {
    const entry = (eventId: string) => ({
      eventId,
      createdAt: "2026-01-01T00:00:00Z",
      action: "worker.drain",
      targetType: "worker",
    });
    const pages: Record<string, object> = {
      "": { items: [], nextCursor: "a", asOf: 1 },
      a: { items: [entry("1")], nextCursor: "b", asOf: 1 },
      b: { items: [entry("2"), entry("3")], nextCursor: "c", asOf: 1 },
    };
    const fixture = createCommandFixture(
      { listAudit: ({ cursor = "" }: { cursor?: string }) => pages[cursor] },
      { output: "id" },
    );

    await listAudit(fixture.context, { limit: 2 });

    expect(fixture.stdout()).toBe("1\n2\n");
    expect(fixture.stderr()).toBe("More items exist. Show the next with --cursor c, or all with --all.\n");
  });

  it("[L84] a list continues behind a cursor, and reads all pages with --all", async () => {
    const entry = (taskId: string) => ({ taskId, nodeId: "n", label: "Say", code: "E.X", status: "open" });
    const pages: Record<string, object> = {
      "": { items: [entry("1")], nextCursor: "a", asOf: 1 },
      a: { items: [entry("2")], nextCursor: "b", asOf: 1 },
      b: { items: [entry("3")], nextCursor: null, asOf: 1 },
    };
    const open = () =>
      createCommandFixture({ listDeadLetters: ({ cursor = "" }: { cursor?: string }) => pages[cursor] }, { output: "id" });
    const [next, all] = [open(), open()];

    await listDeadLetters(next.context, { limit: 1, cursor: "a" });
    await listDeadLetters(all.context, { limit: 1, all: true });

    expect([next.stdout(), next.calls[0]]).toEqual([
      "2\n",
      ["listDeadLetters", expect.objectContaining({ limit: 1, cursor: "a" })],
    ]);
    expect(next.stderr()).toContain("--cursor b");
    expect([all.stdout(), all.stderr()]).toEqual(["1\n2\n3\n", ""]);
  });

  it("[L50] events fails if it never reached the scheduler, and events without --follow also fails if the connection breaks", async () => {
    type Watching = { onState: (state: "open" | "lost", why: Error | null) => void };
    const away = new Error("away");
    const never = createCommandFixture({
      async *events({ onState }: Watching) {
        onState("lost", away);
        yield* [];
      },
    });
    const broken = createCommandFixture({
      async *events({ onState }: Watching) {
        onState("open", null);
        onState("lost", away);
        yield* [];
      },
    });

    await expect(streamEvents(never.context, { follow: true })).rejects.toBe(away);
    await expect(streamEvents(never.context, { since: "0" })).rejects.toBe(away);
    await expect(streamEvents(broken.context, { since: "0" })).rejects.toBe(away);

    expect(await streamEvents(broken.context, { follow: true })).toBe(0);
    expect(broken.stderr()).toContain("reconnecting, no stored event is lost");
  });

  it("[L20] events prints one line per event with its cursor first, and with --json a document with a cursor field", async () => {
    const event = {
      version: "v1",
      id: "7",
      type: "node.status",
      occurredAt: "2026-01-01T00:00:00Z",
      scope: { tenant: "t", runId },
      data: { kind: "node.status", runId, nodeId, status: "queued" },
    } as const;
    async function* events() {
      yield event;
    }
    const fixture = createCommandFixture({ events }, { json: true });

    expect(formatEvent(event)).toBe(`7 2026-01-01T00:00:00Z node.status ${runId} nodeId=${nodeId} status=queued`);
    expect(await streamEvents(fixture.context, { follow: true, since: "6", topics: "node" })).toBe(0);
    expect(JSON.parse(fixture.stdout())).toEqual({ cursor: "7", ...event });
    expect(fixture.calls[0]?.[1]).toMatchObject({ after: "6", topics: "node" });
  });

  it("[L20] events prints an event that is not stored with the last known cursor, and passes its filter on to the stream", async () => {
    const event = (id: string | undefined) => ({
      type: "worker.heartbeat",
      scope: {},
      data: {},
      ...(id !== undefined && { id }),
    });
    async function* events() {
      yield* [event(undefined), event("8"), event(undefined)];
    }
    const fixture = createCommandFixture({ events, listRuns: { items: [{ runId }], nextCursor: null } }, { json: true });

    await streamEvents(fixture.context, {
      follow: true,
      since: "6",
      filter: "topic:worker,wire run:aa3f763 worker:w-1",
      frameType: "biz",
    });

    const lines = fixture.stdout().trim().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { cursor: string }).cursor)).toEqual(["6", "8", "8"]);
    expect(fixture.calls.at(-1)?.[1]).toMatchObject({ topics: "worker,wire", runId, workerName: "w-1", frameType: "biz" });
  });
});
