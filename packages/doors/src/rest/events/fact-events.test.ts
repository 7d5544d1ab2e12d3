// What the events of a node contain: its state, and the dispatch they are about. How events are delivered is in events.test.ts.

import { expect, it } from "vitest";
import { flushPromises, followEvents, openEventStreamFixture } from "../../testing/event-stream-fixture.ts";

it.each([
  ["task.succeeded", "succeeded", { stage: "succeeded", progress: 1, message: "half way" }],
  ["task.failed", "failed", { stage: "failed", progress: 0.5, message: "no", error: { code: "E.RUNNER.FAILURE" } }],
  ["task.cancelled", "cancelled", { stage: "cancelled", progress: 0.5, message: "half way" }],
] as const)(
  "[A372] the node.state event of %s shows the node's progress and last message, as the node's detail does",
  async (type, phase, state) => {
    const about = { task: "r1.0", worker: "default/w-1", fence: 5 };
    const error = type === "task.failed" ? { error: { code: "E.RUNNER.FAILURE", message: "no" } } : {};
    const feedback = { stage: "counting", progress: 0.5, message: "half way", at: 1 };
    const scene = openEventStreamFixture([{ type, data: { ...about, ...error } }], { state: { said: feedback }, phase });
    const reader = await followEvents(scene, { topics: "node" }, "0");
    await flushPromises();

    expect(reader.namedEvents().find((one) => one.type === "node.state")?.data?.["data"]).toMatchObject({ state });
  },
);

it("[A372] a node.state event contains a stage with everything that the node reports of itself, and late feedback produces none", async () => {
  const fact = (data: object) => ({ type: "task.feedback", data: { task: "r1.0", fence: 5, ...data } });
  const late = fact({ stage: "counting", progress: 0.9, isLate: true });
  const reader = await followEvents(
    openEventStreamFixture([fact({ progress: 0.5 }), fact({ stage: "counting", progress: 0.6 }), late]),
    {},
    "0",
  );
  await flushPromises();

  expect(reader.namedEvents().map((one) => one.data?.["data"])).toMatchObject([
    { kind: "node.state", state: { stage: "running", progress: 0.5 } },
    { kind: "node.state", state: { stage: "counting", progress: 0.6 } },
  ]);
});

it("[A373] a node.status event contains the number of its dispatch, as the node's results do; the status of a waiting node has none", async () => {
  const about = { task: "r1.0", worker: "default/w-1", fence: 5 };
  const facts = [
    { type: "task.ready", data: { task: "r1.0" } },
    { type: "task.granted", data: { ...about, attempt: 1 } },
    { type: "task.requeued", data: { ...about, fence: 6 } },
    { type: "task.succeeded", data: about },
  ];
  const reader = await followEvents(openEventStreamFixture(facts), { topics: "node" }, "0");
  await flushPromises();

  const eventData = reader.namedEvents().map((one) => one.data?.["data"] as { kind: string; seq?: number; revision?: number });
  expect(eventData.filter(({ kind }) => kind === "node.status").map(({ seq }) => seq)).toEqual([undefined, 5, undefined, 5]);
  expect(eventData.at(-1)).toMatchObject({ kind: "node.result.snapshot", revision: 5 });
});

it("[A400] a value that does not match its schema produces a node.warning event with its code, its field and a sentence", async () => {
  const warning = { code: "E.RESULT.INVALID", message: "node n: results.status is required", field: "/results/status" };
  const fact = { type: "task.warning", data: { task: "r1.0", worker: "default/w-1", fence: 5, node: "n", ...warning } };
  const reader = await followEvents(openEventStreamFixture([fact]), { topics: "node" }, "0");
  await flushPromises();

  expect(reader.namedEvents().map((one) => one.data?.["data"])).toMatchObject([
    { kind: "node.warning", taskId: "r1.0", warning },
  ]);
});
