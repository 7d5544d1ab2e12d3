import { describe, expect, it } from "vitest";
import type { RestCall } from "../requests/rest-call.ts";
import { readEventFilter, readVolatileFilter } from "./event-filter.ts";

const callWith = (query: Readonly<Record<string, string>>): RestCall =>
  ({
    query,
    tenant: "t1",
    number: (name: string) => (query[name] === undefined ? undefined : Number(query[name])),
  }) as unknown as RestCall;
const nodeEvent = (chainIndex: number | null) => ({
  type: "node.status" as const,
  scope: { tenant: "t1", runId: "r1" },
  node: { nodeId: "n", chainIndex, hostNodeId: "h", middlewares: ["m"] } as never,
});

describe("the filter of an event stream", () => {
  it("[A245] the first place of a chain is a filter like any other", () => {
    const passes = readEventFilter(callWith({ chainIndex: "0" }));

    expect([0, 1, null].map((place) => passes(nodeEvent(place)))).toEqual([true, false, false]);
  });

  it("[A204] everything that is named must fit", () => {
    const fitting = { runId: "r1", nodeId: "n", hostNodeId: "h", middleware: "m", topics: "run,node" };

    expect(readEventFilter(callWith(fitting))(nodeEvent(2))).toBe(true);
    for (const [name, value] of Object.entries({
      runId: "r2",
      nodeId: "o",
      hostNodeId: "i",
      middleware: "k",
      topics: "run,worker",
    }))
      expect(readEventFilter(callWith({ ...fitting, [name]: value }))(nodeEvent(2))).toBe(false);
  });

  it("[A310] no frame passes a filter for nodes", () => {
    const frameFilter = (query: Readonly<Record<string, string>>) => {
      const call = callWith({ topics: "wire", ...query });
      return readVolatileFilter(call, readEventFilter(call)).frame;
    };

    expect(frameFilter({ runId: "r1" })).toEqual({ workerName: undefined, runId: "r1", frameType: undefined });
    for (const name of ["nodeId", "hostNodeId", "middleware", "chainIndex"]) expect(frameFilter({ [name]: "0" })).toBeNull();
  });
});
