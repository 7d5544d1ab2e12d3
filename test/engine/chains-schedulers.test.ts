// Chains across two schedulers, and hosts that are containers: the answer finds its caller wherever its socket is.
import type { SendNextAnswer } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { answers, begin, hosted, next, phases, sentFor, taskAt, wrapped } from "./chains-stage.ts";
import { type Crew, graph, Harness, nodeId } from "./harness.ts";
import { Stage } from "./mended-stage.ts";

const apart = hosted([{ policy: { pool: "near" } }], { host: { policy: { pool: "far" } } });

describe("callers at another scheduler", () => {
  it("[B42] brings the answer to the middleware's session as mail, once", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const caller = await near.join("a", { slots: 1, pool: "near" });
    const callee = await far.join("b", { slots: 1, pool: "far" });
    const run = await near.run(apart);
    await stage.pass(2);
    await near.ask(ask(caller, "q1"));
    await stage.pass(3);

    await callee.done({ out: 3 }, sentFor(callee, "0~1"));
    await stage.pass(2);

    expect(answers(near)).toMatchObject([
      { session: caller.session, request: "q1", result: '{"out":3}' } satisfies Partial<SendNextAnswer>,
    ]);
    expect(answers(far)).toEqual([]);
    // Its slot is taken again: the hold waits no more.
    await near.run(hosted([], { host: { policy: { pool: "near" } } }));
    await stage.pass(2);
    expect(caller.sent).toHaveLength(1);
    await caller.done({}, sentFor(caller, "1"));
    await stage.pass(2);
    expect((await near.detail(run)).run.phase).toBe("succeeded");
    expect(caller.sent).toHaveLength(2);
  });

  it("[B42] tells a worker that resumed at another scheduler what it was owed", async () => {
    const stage = new Stage({ mode: "weak" });
    const [near, far] = [await stage.boot("r1"), await stage.boot("r2")];
    const caller = await near.join("a", { slots: 1, pool: "near" });
    const callee = await near.join("b", { slots: 1, pool: "far" });
    await near.run(apart);
    await stage.pass(2);
    await near.ask(ask(caller, "q1"));
    await stage.pass(1);
    await caller.leave();
    await callee.done({ out: 3 }, sentFor(callee, "0~1"));

    const back = await far.join("a", {
      slots: 1,
      pool: "near",
      session: caller.session,
      boot: caller.boot,
      resumed: { unacked: [] },
    });

    expect(answers(far)).toMatchObject([{ session: back.session, request: "q1", result: '{"out":3}' }]);
  });
});

function ask(crew: Crew, request: string) {
  const { task, fence } = sentFor(crew, "1");
  return {
    type: "task.next",
    tenant: crew.tenant,
    worker: crew.worker,
    session: crew.session,
    task,
    fence,
    request,
    payload: null,
    hostCtx: null,
    middlewareCtx: null,
    timeoutMs: null,
  } as const;
}

/** A container with one node inside, behind one middleware. */
function boxed(): Record<string, unknown> {
  const drawn = graph([{ type: "workflow.container" }], []);
  const [box] = drawn.nodes as [Record<string, unknown>];
  const inner = { ...(graph([{}], []).nodes as [Record<string, unknown>])[0], id: nodeId(50) };
  const __container = {
    subgraphId: "body",
    inputs: [{ from: "parameters.x", node: nodeId(50), to: "parameters.y" }],
    outputs: [{ node: nodeId(50), from: "results.out", to: "results.out" }],
  };
  const nodes = [{ ...box, role: "container", parameters: { x: 1, __container } }];
  const subgraphs = [
    {
      id: "body",
      definition: { id: nodeId(60), schemaVersion: "2025-10", metadata: { name: "body" }, nodes: [inner], edges: [] },
    },
  ];
  return wrapped({ ...drawn, nodes, subgraphs }, 0, [{}]);
}

describe("a container behind a chain", () => {
  it("[E63] is opened by each call, with the payload in its parameters, and answers with its outputs", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { slots: 1 });
    const run = await begin(world, boxed());

    await next(crew, sentFor(crew, "1"), "q1", { payload: { x: 2 } });
    expect(JSON.parse(sentFor(crew, "0~1*0/0").params)).toMatchObject({ y: 2 });
    await crew.done({ out: "a" }, sentFor(crew, "0~1*0/0"));
    expect(answers(world)).toMatchObject([{ request: "q1", result: '{"out":"a"}' }]);
    await next(crew, sentFor(crew, "1"), "q2");
    await crew.done({ out: "b" }, sentFor(crew, "0~2*0/0"));
    await crew.done({}, sentFor(crew, "1"));

    expect((await world.detail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
    expect((await taskAt(world, run, "0")).result).toBe('{"out":"b"}');
  });

  it("[E63] is ended with all inside when its caller's time is up or its caller is over", async () => {
    const world = await new Harness().start();
    const crew = await world.join("w", { slots: 1 });
    const run = await begin(world, boxed());
    await next(crew, sentFor(crew, "1"), "q1", { timeoutMs: 100 });
    await crew.ack(sentFor(crew, "0~1*0/0"));
    await world.advance(101);
    expect(answers(world)).toMatchObject([{ error: { code: "next_timeout" } }]);
    expect(await phases(world, run)).toEqual({
      "0": "hosting",
      "0~1": "cancelled",
      "0~1*0": "cancelled",
      "0~1*0/0": "cancelled",
      "1": "leased",
    });
    await next(crew, sentFor(crew, "1"), "q2");

    await crew.done({}, sentFor(crew, "1"));

    expect(await phases(world, run)).toMatchObject({ "0": "succeeded", "0~2": "cancelled", "0~2*0/0": "cancelled" });
    expect((await world.detail(run)).run).toMatchObject({ phase: "succeeded", open: 0 });
  });
});

describe("an answer that comes by mail before the asking has landed", () => {
  it("[E103] leaves the caller with its slot taken: it goes on, whatever the order in which commits are heard of", async () => {
    // The turn before the asking has not been heard of yet, so neither has the asking, although it is stored and the other scheduler sees it.
    const gate = Promise.withResolvers<void>();
    let isHeld = false;
    const stage = new Stage({
      mode: "weak",
      gate: ({ step, replica }) => {
        if (step !== "commit" || replica !== "r1" || !isHeld) return undefined;
        isHeld = false;
        return gate.promise;
      },
    });
    const near = await stage.boot("r1", { settings: { turnsInFlight: 3 } });
    const far = await stage.boot("r2");
    const caller = await near.join("a", { slots: 1, pool: "near" });
    const callee = await far.join("b", { slots: 1, pool: "far" });
    const run = await near.run(apart);
    await stage.pass(2);

    isHeld = true;
    const slow = near.run(hosted([], { host: { policy: { pool: "none" } } }));
    await stage.pass(0);
    const asked = near.ask(ask(caller, "q1"));
    await stage.pass(3);
    await callee.done({ out: 3 }, sentFor(callee, "0~1"));
    // Something else brings a turn that hears the mail.
    const joined = near.join("c", { slots: 1, pool: "other" });
    await stage.pass(1);
    gate.resolve();
    await Promise.all([slow, asked, joined]);
    await stage.pass(2);

    expect(answers(near)).toMatchObject([{ request: "q1", result: '{"out":3}' }]);
    await near.run(hosted([], { host: { policy: { pool: "near" } } }));
    await stage.pass(2);
    expect(caller.sent.map(({ task }) => task)).toEqual([`${run}.1`]);
  });
});
