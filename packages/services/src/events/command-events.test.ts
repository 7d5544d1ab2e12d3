import type { LoggedFact } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import type { EventLookup } from "./event-lookup.ts";
import { eventsOfFact } from "./fact-events.ts";

const lookup = { workerName: async () => "press" } as unknown as EventLookup;
const eventDataOf = async (type: string, data: LoggedFact["data"]) => {
  const entry: LoggedFact = { position: 7, at: 1_000, subject: "worker/default/w-1", type, data };
  return (await eventsOfFact(entry, lookup, "default")).map((event) => event.data);
};

describe("facts about commands as events", () => {
  it("[A269] the end of a command becomes one event with the command's id and, for a failure, the error code and message", async () => {
    const error = { code: "E.WORKER.LOST", message: "worker press was lost before it answered; give the command again" };

    expect(await eventDataOf("command.acked", { id: "c-1", details: { kept: true } })).toEqual([
      { kind: "command.ack", commandId: "c-1", workerName: "press", receivedAt: "1970-01-01T00:00:01.000Z" },
    ]);
    expect(await eventDataOf("command.failed", { id: "c-2", error })).toEqual([
      { kind: "command.error", commandId: "c-2", workerName: "press", error },
    ]);
    expect(await eventDataOf("command.failed", { id: "c-3" })).toMatchObject([{ error: { code: "E.PKG.INVALID" } }]);
  });

  it("[A269] the facts that a command was sent and who requested it become no events", async () => {
    expect(await eventDataOf("command.sent", { id: "c-1", type: "drain", by: "ann" })).toEqual([]);
    expect(await eventDataOf("audit.worker.kick", { by: "ann", outcome: "ok" })).toEqual([]);
  });
});
