// Nothing that a caller sends holds a thread of the scheduler for long: holds are measured in pieces of reference work.

import { randomBytes } from "node:crypto";
import { writeZip } from "@astraflow/archive";
import { expect, it } from "vitest";
import { holdsPerReferenceMax } from "../../../bench/harness/loop-holds.ts";
import {
  costlyManifest,
  costlyResultsManifest,
  costlyTexts,
  costlyWorkflows,
  largeManifests,
  largeWorkflows,
  sideBySide,
  uuidOf,
} from "../harness/costly-bodies.ts";
import { startScheduler } from "../harness/installation.ts";
import { createMeter, startWithTokens } from "../harness/loop-meter.ts";
import { pollUntil, waitMsMax } from "../harness/processes.ts";
import { openRawWorker, sendHandshake } from "../harness/raw-worker-socket.ts";

it("[O614] no body that a caller with the grant read can send to be checked holds the doors' thread or the engine's for long", async () => {
  const { scheduler, asReader } = await startWithTokens();
  const { measure, measured } = createMeter(scheduler);
  const validate = (text: string) => asReader("POST", "/workflows/validate", text);
  const bodies = Object.entries({ ...costlyWorkflows, ...largeWorkflows }).map(
    ([name, make]) => [name, JSON.stringify(make())] as const,
  );
  await validate(JSON.stringify(largeWorkflows.chain(500))); // starts the thread

  for (const [name, text] of bodies)
    await measure(`validate ${name}`, async () => expect((await validate(text)).status).toBeOneOf([200, 413]));
  for (const [name, make] of Object.entries(costlyTexts))
    await measure(`validate ${name}`, async () => expect((await validate(make())).status).toBeOneOf([400, 413]));
  const doubling = JSON.stringify(costlyWorkflows.doubling());
  await measure("validate doubling 14 times at once", async () => {
    const answers = await Promise.all(Array.from({ length: 14 }, () => validate(doubling)));
    for (const { status, text } of answers) {
      expect(status).toBe(200);
      expect(text).toContain("E.WORKFLOW.TOO_COSTLY");
    }
  });

  expect(measured.filter(({ holds }) => holds > holdsPerReferenceMax)).toEqual([]);
});

it("[O614] nothing that a caller with the grants to edit and to run does with the largest workflows holds a thread for long", async () => {
  const { scheduler, asEditor } = await startWithTokens();
  const { measure, measured } = createMeter(scheduler);
  const dense = largeWorkflows.dense();
  const { id } = dense;
  const expectStatus = async (status: number, answer: ReturnType<typeof asEditor>) => {
    const got = await answer;
    expect([got.status, got.status === status ? "" : got.text.slice(0, 300)]).toEqual([status, ""]);
    return got.text;
  };
  const changed = { ...dense, nodes: dense.nodes.map((node) => ({ ...node, label: `${node.label} changed` })) };

  await measure("save", () => expectStatus(201, asEditor("POST", "/workflows", JSON.stringify(dense))));
  await measure("read", () => expectStatus(200, asEditor("GET", `/workflows/${id}`)));
  await measure("draft", () => expectStatus(200, asEditor("GET", `/workflows/${id}/draft`)));
  const edits = dense.nodes.slice(0, 5_000).map((node) => ({ op: "setNode", id: node.id, path: "/label", value: "edited" }));
  await measure("edit the draft", () =>
    expectStatus(200, asEditor("PATCH", `/workflows/${id}/draft`, JSON.stringify({ base: 1, edits }))),
  );
  await measure("publish", () => expectStatus(201, asEditor("POST", `/workflows/${id}/versions`, "{}")));
  await measure("replace", () => expectStatus(200, asEditor("PUT", `/workflows/${id}`, JSON.stringify(changed))));
  await measure("diff", () => expectStatus(200, asEditor("GET", `/workflows/${id}/diff?from=1&to=draft`)));
  await measure("export", () => expectStatus(200, asEditor("GET", `/workflows/${id}/export`)));
  await measure("list", () => expectStatus(200, asEditor("GET", "/workflows")));
  await measure("run of a version", () =>
    expectStatus(202, asEditor("POST", "/runs", JSON.stringify({ workflowId: id, clientId: "c" }))),
  );
  const start = JSON.stringify({ workflow: largeWorkflows.chain(2), clientId: "c" });
  for (const [chars, status] of [
    [64, 202],
    [12_000, 400],
    [60_000, 431],
  ] as const)
    await measure(`key of ${chars} characters`, () =>
      expectStatus(status, asEditor("POST", "/runs", start, { "idempotency-key": "k".repeat(chars) })),
    );
  for (const name of ["fanOut", "containers", "longText", "manyItems"] as const) {
    const body = JSON.stringify({ workflow: largeWorkflows[name](), clientId: "c" });
    let runId = "";
    await measure(`run ${name}`, async () => {
      runId = JSON.parse(await expectStatus(202, asEditor("POST", "/runs", body))).runId;
    });
    // Reading the others is the same work with fewer nodes, or with a shorter value.
    if (name === "fanOut" || name === "longText") {
      await measure(`show ${name}`, () => expectStatus(200, asEditor("GET", `/runs/${runId}`)));
      await measure(`definition of ${name}`, () => expectStatus(200, asEditor("GET", `/runs/${runId}/definition`)));
    }
    await measure(`cancel ${name}`, () => expectStatus(202, asEditor("POST", `/runs/${runId}/cancel`)));
  }

  expect(measured.filter(({ holds }) => holds > holdsPerReferenceMax)).toEqual([]);
});

it("[O614] manifests with costly schemas hold no thread for long, neither when a worker brings them nor when a workflow uses them", async () => {
  const { scheduler, asReader } = await startWithTokens();
  const { measure, measured } = createMeter(scheduler);
  const manifests = [0, 1].map((number) => ({
    name: `costly-${number}`,
    version: "1.0.0",
    manifest: costlyManifest(number),
  }));
  const nodes = Array.from({ length: 220 }, (_, at) => ({
    id: uuidOf(at),
    type: `costly-0.n${at}`,
    label: "n",
    package: { name: "costly-0", version: "1.0.0" },
    position: { x: 0, y: 0 },
    parameters: { x: "text" },
  }));
  const body = JSON.stringify({ ...costlyWorkflows.doubling(), nodes });

  await measure("register", async () => {
    const socket = await openRawWorker(scheduler.ws);
    sendHandshake(socket, { mode: "token", token: "dev-token" });
    await socket.nextFrame("control.ack");
    socket.sendFrame("control.register", {
      capabilities: { concurrency: { max_parallel: 1 }, runtimes: ["node"], features: [] },
      manifests,
      boot_id: "boot",
      running: [],
    });
    await socket.nextFrame("control.session.accept");
  });
  await measure("validate", async () => {
    const { text } = await pollUntil("the manifests to be stored", async () => {
      const answer = await asReader("POST", "/workflows/validate", body);
      return answer.text.includes("E.WORKFLOW.TOO_COSTLY") ? answer : null;
    });
    expect(text).toContain('"isValid":false');
  });

  expect(measured.filter(({ holds }) => holds > holdsPerReferenceMax)).toEqual([]);
});

it("[O805] no frame of a worker holds a thread for long: large registers, catalogues, heartbeats and reports, and a batch of costly results", async () => {
  const { scheduler, asEditor } = await startWithTokens();
  const { measure, measured } = createMeter(scheduler);
  const features = ["fence", "batch"];
  const register = (more: object) => ({
    capabilities: { concurrency: { max_parallel: 64 }, runtimes: ["node"], features },
    boot_id: "boot",
    running: [],
    ...more,
  });
  const connect = async (instance: string) => {
    const socket = await openRawWorker(scheduler.ws, { instance });
    sendHandshake(socket, { mode: "token", token: "dev-token" }, instance);
    await socket.nextFrame("control.ack");
    return socket;
  };
  const registers = {
    "40 packages with 4 MB": largeManifests(40, 4_000_000),
    "1,000 packages with 3 MB": largeManifests(1_000, 3_000_000, "many"),
    "9 packages with 7.5 MB": largeManifests(9, 7_500_000, "long"),
  };
  for (const [name, manifests] of Object.entries(registers))
    await measure(`register ${name}`, async () => {
      const socket = await connect(name.replaceAll(/[^0-9a-z]/g, "-"));
      socket.sendFrame("control.register", register({ manifests }));
      await socket.nextFrame("control.session.accept");
      socket.terminate();
    });
  await measure("register 14 MB", async () => {
    const socket = await connect("too-large");
    socket.sendFrame("control.register", register({ manifests: largeManifests(14, 14_000_000, "larger") }));
    expect((await socket.nextFrame("control.reset")).payload["code"]).toBe("E.FRAME.TOO_LARGE");
  });

  const worker = await connect("costly");
  const manifests = [{ name: "results", version: "1.0.0", manifest: costlyResultsManifest() }];
  worker.sendFrame("control.register", register({ manifests }));
  await worker.nextFrame("control.session.accept");
  const sendAndWait = async (type: string, payload: object) => {
    const id = worker.sendFrame(type, payload);
    await pollUntil(`the ack of ${type}`, async () => (await worker.nextFrame("control.ack")).payload["for"] === id || null);
  };
  const packages = largeManifests(30, 7_000_000, "listed").map((one) => ({ ...one, status: "installed" }));
  await measure("catalogue of 7 MB", () =>
    sendAndWait("biz.pkg.catalog", { packages: [...packages, ...manifests.map((one) => ({ ...one, status: "installed" }))] }),
  );
  await measure("heartbeat of 7 MB", () =>
    sendAndWait("control.heartbeat", { healthy: true, metrics: { more: "x".repeat(7_000_000) } }),
  );
  const items = Array.from({ length: 45_000 }, (_, at) => ({ at, name: `item ${at} ${"x".repeat(100)}` }));
  const dispatched: { run_id: string; task_id: string; fence: number }[] = [];
  const body = JSON.stringify({ workflow: sideBySide(40, 64, "results"), clientId: "c" });
  const unknownType = JSON.stringify({
    ...sideBySide(41, 1, "results"),
    nodes: [{ ...sideBySide(41, 1, "results").nodes[0], type: "none" }],
  });
  await pollUntil(
    "the manifest in the catalogue",
    async () => (await asEditor("POST", "/workflows/validate", unknownType)).text.includes("has no node type none") || null,
  );
  const started = JSON.parse((await asEditor("POST", "/runs", body)).text) as { runId: string };
  while (dispatched.length < 64) {
    const { payload } = await worker.nextFrame("biz.exec.dispatch.batch");
    dispatched.push(...(payload["items"] as typeof dispatched));
  }
  const [first, second, third, fourth, ...others] = dispatched.map(({ run_id, task_id, fence }) => ({ run_id, task_id, fence }));
  await measure("feedback of 6 MB", () => sendAndWait("biz.exec.feedback", { ...first, stage: "work", metadata: { items } }));
  await measure("60 results that are costly to check", () =>
    sendAndWait("biz.exec.result.batch", {
      items: others.map((one) => ({ ...one, status: "SUCCEEDED", result: { x: "text" } })),
    }),
  );
  await measure("result of 6 MB", () => sendAndWait("biz.exec.result", { ...first, status: "SUCCEEDED", result: { items } }));
  await measure("result of 1.9 MB", () =>
    sendAndWait("biz.exec.result", { ...second, status: "SUCCEEDED", result: { items: items.slice(0, 14_000) } }),
  );
  // Each object has a key of its own, which the parser has never seen.
  const kinds = Array.from({ length: 49_000 }, (_, at) => ({ [`kind ${at}`]: "\n".repeat(60) }));
  await measure("result of 7 MB with 49,000 kinds of objects", () =>
    sendAndWait("biz.exec.result", { ...third, status: "SUCCEEDED", result: { kinds } }),
  );
  const details = { __resourceBindings: {}, items, numbers: items.map(({ at }) => at + 0.5) };
  await measure("feedback of 6 MB with bindings", () =>
    sendAndWait("biz.exec.feedback", { ...fourth, stage: "work", metadata: details }),
  );
  await measure("error with 6 MB of details", () =>
    sendAndWait("biz.exec.error", { ...fourth, code: "E.RUNNER.FAILURE", message: "threw", context: { details } }),
  );
  const { text } = await asEditor("GET", `/runs/${started.runId}`);
  expect(text).toContain("E.RESULT.TOO_LARGE");
  expect(text).toContain("takes too many steps");

  expect(measured.filter(({ holds }) => holds > holdsPerReferenceMax)).toEqual([]);
});

it("[O933] no archive of a package that a caller publishes holds the doors' thread or the engine's for long", async () => {
  const scheduler = await startScheduler({ flags: ["--package-unsigned"] });
  const { measure, measured } = createMeter(scheduler);
  const publish = async (archive: Buffer): Promise<number> => {
    const form = new FormData();
    form.set("file", new Blob([new Uint8Array(archive)]), "a.cwx");
    const headers = { authorization: "Bearer dev-token" };
    const signal = AbortSignal.timeout(waitMsMax);
    const response = await fetch(`${scheduler.http}/api/v1/packages`, { method: "POST", headers, body: form, signal });
    await response.text();
    return response.status;
  };
  const archiveOf = (name: string, manifestChars: number, files: Readonly<Record<string, Uint8Array>>): Buffer => {
    const [{ manifest } = { manifest: {} }] = largeManifests(1, manifestChars, name);
    const all = { "manifest.json": Buffer.from(JSON.stringify(manifest)), "main.js": Buffer.from(""), ...files };
    return writeZip(Object.entries(all).map(([file, content]) => ({ name: file, content })));
  };
  const many = Object.fromEntries(Array.from({ length: 19_000 }, (_, at) => [`${at}/${"é/".repeat(22)}x`, Buffer.alloc(0)]));
  const large = Object.fromEntries(Array.from({ length: 4 }, (_, at) => [`files/${at}.bin`, randomBytes(12 * 1024 * 1024)]));
  await publish(archiveOf("first", 2_000, {})); // starts the thread

  await measure("19,000 files in deep folders", async () => expect(await publish(archiveOf("many", 2_000, many))).toBe(201));
  await measure("48 MiB", async () => expect(await publish(archiveOf("big", 2_000, large))).toBe(201));
  await measure("a manifest of 900 kB", async () => expect(await publish(archiveOf("long", 900_000, {}))).toBe(201));
  await measure("a manifest that is wrong", async () => expect(await publish(archiveOf("Wrong", 900_000, {}))).toBe(422));

  expect(measured.filter(({ holds }) => holds > holdsPerReferenceMax)).toEqual([]);
});
