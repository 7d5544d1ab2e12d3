// Many requests at once, each small, and the requests about runs and files that read the most: none holds a thread of the scheduler for long.

import { expect, it } from "vitest";
import { sendBurst } from "../../../bench/harness/burst.ts";
import { holdsPerReferenceMax } from "../../../bench/harness/loop-holds.ts";
import { burstWorkflows, largeWorkflows } from "../harness/costly-bodies.ts";
import { createMeter, startWithTokens } from "../harness/loop-meter.ts";

it("[O1450] 200 or 1,000 small requests at once hold no thread for long, each is answered or refused with 503, and /healthz is answered between", async () => {
  const { scheduler, tokens, asEditor } = await startWithTokens();
  const { measure, measured } = createMeter(scheduler);
  const started = await asEditor("POST", "/runs", JSON.stringify({ workflow: largeWorkflows.chain(300), clientId: "c" }));
  const { runId } = JSON.parse(started.text) as { runId: string };
  const bodies = Object.entries(burstWorkflows).map(([name, make]) => [name, JSON.stringify(make())] as const);
  const requests = [
    ...bodies.map(([name, body]) => ({ name, method: "POST", path: "/workflows/validate", body, token: tokens.reader })),
    { name: "run", method: "GET", path: `/runs/${runId}`, token: tokens.editor },
    { name: "logs", method: "GET", path: `/runs/${runId}/logs?q=x`, token: tokens.editor },
    { name: "list", method: "GET", path: "/runs?limit=200", token: tokens.editor },
  ];
  let probes = 0;

  const bursts = [
    ...requests.map((request) => ({ ...request, count: 200 })),
    ...requests.filter(({ name }) => name === "nodes" || name === "run").map((request) => ({ ...request, count: 1_000 })),
  ];
  for (const { count, name, path, ...request } of bursts)
    await measure(`${count} x ${name}`, async () => {
      const burst = sendBurst(scheduler.http, count, { ...request, path: `/api/v1${path}` });
      let isOver = false;
      void burst.finally(() => (isOver = true));
      while (!isOver) {
        expect((await fetch(`${scheduler.http}/healthz`)).status).toBe(200);
        probes += 1;
      }
      const answers = await burst;
      expect([...answers.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
      expect(answers.get(200) ?? 0).toBeGreaterThan(0);
    });

  expect(measured.filter(({ holds }) => holds > holdsPerReferenceMax)).toEqual([]);
  // More than once in each burst: they were not answered before and after it alone.
  expect(probes).toBeGreaterThan(2 * bursts.length);
});

it("[O614] imports, bulk changes, replays, retries and logs of the largest workflows hold no thread for long", async () => {
  const { scheduler, asEditor } = await startWithTokens();
  const { measure, measured } = createMeter(scheduler);
  const send = async (expected: number, ...request: Parameters<typeof asEditor>): Promise<string> => {
    const { status, text } = await asEditor(...request);
    expect([status, status === expected ? "" : text.slice(0, 300)]).toEqual([expected, ""]);
    return text;
  };
  const dense = largeWorkflows.dense();
  await send(201, "POST", "/workflows", JSON.stringify(dense));
  const file = await send(200, "GET", `/workflows/${dense.id}/export`);
  const start = async (name: "fanOut" | "longText" | "manyItems") =>
    JSON.parse(await send(202, "POST", "/runs", JSON.stringify({ workflow: largeWorkflows[name](), clientId: "c" }))).runId;
  const fanOut = await start("fanOut");
  const longText = await start("longText");

  await measure("import", () => send(201, "POST", "/workflows/import?ids=renew", file));
  await measure("import over what is there", () => send(409, "POST", "/workflows/import?ids=keep", file));
  await measure("logs", () => send(200, "GET", `/runs/${fanOut}/logs?q=x&limit=1000`));
  await measure("events", () => send(200, "GET", `/runs/${fanOut}/events?limit=200`));
  for (const [name, runId] of [
    ["fanOut", fanOut],
    ["longText", longText],
  ])
    await measure(`cancel ${name}`, () => send(202, "POST", `/runs/${runId}/cancel`));
  await measure("replay as a plan", () => send(200, "POST", `/runs/${fanOut}/replay`, JSON.stringify({ dryRun: true })));
  await measure("replay", () => send(202, "POST", `/runs/${fanOut}/replay`, "{}"));
  await measure("retry", () => send(202, "POST", `/runs/${longText}/retry`, "{}"));
  const bulk = (action: string) => JSON.stringify({ action, filter: { clientId: "c" } });
  for (const action of ["replay", "cancel"])
    await measure(`bulk ${action}`, async () => {
      const { bulkId } = JSON.parse(await send(202, "POST", "/runs/bulk", bulk(action))) as { bulkId: string };
      await expect
        .poll(async () => (JSON.parse(await send(200, "GET", `/bulk/${bulkId}`)) as { status: string }).status, {
          timeout: 120_000,
        })
        .not.toBe("running");
    });
  const runIds = Array.from({ length: 1_000 }, (_, at) => (at % 2 === 0 ? fanOut : `none-${at}`));
  await measure("bulk of 1,000 ids", () =>
    send(202, "POST", "/runs/bulk", JSON.stringify({ action: "cancel", filter: { runIds } })),
  );

  expect(measured.filter(({ holds }) => holds > holdsPerReferenceMax)).toEqual([]);
});
