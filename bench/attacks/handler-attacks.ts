// Attacks by a package: results that no scheduler can read, and secrets told in every encoding. Each has a worker of its own.

import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Run } from "@astraflow/protocol";
import { startWorker, stopProgram, waitUntilReady } from "../harness/child-programs.ts";
import { type Attack, type AttackTarget, demoWorkflow, judge, request, startRun, waitForRunEnd } from "./attack.ts";

const packageName = "hostile";

/** A handler by name, as the source of a function. */
const handlers = {
  deep: "() => { let v = 1; for (let n = 0; n < 100; n++) v = { v }; return v; }",
  manyKeys: "() => Object.fromEntries(Array.from({ length: 120_000 }, (_, n) => [`k${n}`, n]))",
  prototype: '() => JSON.parse(\'{"a":{"__proto__":1}}\')',
  surrogate: '() => ({ "\\ud800": 1 })',
  fine: "() => ({ fine: true })",
  leak: `async (ctx) => {
    const { value = "" } = ctx.resourceBindings.door ?? {};
    const bytes = Buffer.from(value);
    const shifted = [0, 1, 2].map((by) => Buffer.concat([Buffer.alloc(by, "-"), bytes]).toString("base64"));
    const told = {
      plain: value, hex: bytes.toString("hex"), upper: bytes.toString("hex").toUpperCase(), url: encodeURIComponent(value),
      base64url: bytes.toString("base64url"), shifted, ["key " + value]: 1,
    };
    ctx.feedback.send({ message: "it is " + value, metadata: told, metrics: { ["m " + value]: 1 } });
    ctx.feedback.emitText("in two " + value.slice(0, 9));
    ctx.feedback.emitText(value.slice(9) + " parts");
    ctx.feedback.send({ chunks: [{ channel: "log", data_base64: bytes.subarray(0, 7).toString("base64") }] });
    ctx.feedback.send({ chunks: [{ channel: "log", data_base64: bytes.subarray(7).toString("base64") }] });
    console.log(value, told.hex, told.url);
    return { told, has: value.length };
  }`,
  fail: '(ctx) => { throw new Error("broken by " + ctx.resourceBindings.door?.value); }',
};

function writePackage(folder: string): void {
  mkdirSync(join(folder, packageName), { recursive: true });
  const manifest = {
    schemaVersion: "1.0.0",
    name: packageName,
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: [`${packageName}.all`] }],
    node: { requires: ">=22" },
    nodes: Object.keys(handlers).map((handler) => ({
      status: "published",
      category: "Attacks",
      adapter: "main",
      schema: {},
      type: `${packageName}.${handler}`,
      label: handler,
      handler,
    })),
    requirements: { resources: [{ key: "door", type: "secret" }] },
  };
  writeFileSync(join(folder, packageName, "manifest.json"), JSON.stringify(manifest));
  const source = Object.entries(handlers).map(([name, text]) => `export const ${name} = ${text};\n`);
  writeFileSync(join(folder, packageName, "main.mjs"), source.join(""));
}

async function withHostileWorker<T>({ ws }: AttackTarget, use: () => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "astra-attack-"));
  const packagesDir = join(folder, "packages");
  writePackage(packagesDir);
  const worker = startWorker({ dir: join(folder, "data"), url: ws, maxParallel: 8, nodeFlags: [], packagesDir });
  try {
    await waitUntilReady(worker);
    return await use();
  } finally {
    await stopProgram(worker);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runHandler(target: AttackTarget, handler: keyof typeof handlers): Promise<Run> {
  const workflow = demoWorkflow(`${packageName}.${handler}`, {});
  for (const node of workflow.nodes) Object.assign(node, { package: { name: packageName, version: "1.0.0" } });
  return waitForRunEnd(target, await startRun(target, workflow));
}

const poisonedResults: Attack = {
  name: "results that no reader of frames accepts, then work on the same worker",
  isQuick: true,
  async send(target) {
    return withHostileWorker(target, async () => {
      const names = ["deep", "manyKeys", "prototype", "surrogate"] as const;
      const runs = await Promise.all(names.map((name) => runHandler(target, name)));
      const begin = performance.now();
      const { status } = await runHandler(target, "fine");
      const recoveryMs = performance.now() - begin;
      const { text } = await request(target, "/api/v1/workers", { token: target.tokens.admin });
      const seen = runs.map((run, at) => `${names[at]}: ${run.status} ${run.error?.code ?? ""}`).join(", ");
      return judge(`${seen}; the next task of that worker ${status} after ${recoveryMs.toFixed(0)} ms`, {
        "a poisoned result did not fail its own run": runs.some((run) => run.status !== "failed"),
        "an attempt was made again": runs.some(({ nodes }) => nodes?.some(({ attempt }) => attempt !== 1) === true),
        "the worker did no more work": status !== "succeeded",
        "no worker is listed any more": !text.includes('"online"'),
      });
    });
  },
};

/** As it may appear in what people read. */
function encodingsOf(secret: string): Readonly<Record<string, string>> {
  const bytes = Buffer.from(secret);
  // The first and last characters depend on what is around the secret.
  const shifted = [0, 1, 2].map((by) =>
    Buffer.concat([Buffer.alloc(by, "-"), bytes])
      .toString("base64")
      .slice(4, -4),
  );
  return {
    plain: secret,
    hex: bytes.toString("hex"),
    "upper-case hex": bytes.toString("hex").toUpperCase(),
    url: encodeURIComponent(secret),
    base64url: bytes.toString("base64url").slice(4, -4),
    ...Object.fromEntries(shifted.map((text, by) => [`base64 at offset ${by}`, text])),
  };
}

async function grantSecret(target: AttackTarget, secret: string): Promise<void> {
  const form = new FormData();
  form.set("file", new Blob([secret], { type: "text/plain" }), "door.key");
  const headers = { authorization: `Bearer ${target.tokens.admin}` };
  const made = await fetch(`${target.http}/api/v1/resources`, { method: "POST", headers, body: form });
  const { resourceId } = (await made.json()) as { resourceId?: string };
  const body = { resourceId, packageName, resourceKey: "door", scope: "global" };
  const granted = await request(target, "/api/v1/resource-grants", { token: target.tokens.admin, body });
  if (granted.status !== 201) throw new Error(`the grant was answered ${granted.status}: ${granted.text}`);
}

const leakedSecret: Attack = {
  name: "a package that tells its secret in every encoding, as keys, in parts, in output and in an error",
  isQuick: true,
  async send(target) {
    const secret = `open/sesame+${randomBytes(12).toString("base64url")}&?`;
    await grantSecret(target, secret);
    return withHostileWorker(target, async () => {
      const runs = [await runHandler(target, "leak"), await runHandler(target, "fail")];
      const paths = runs.flatMap(({ runId, nodes = [] }) => [
        ...["", "/events?limit=200", "/nodes", "/logs?limit=1000", "/artifacts"].map((part) => `/api/v1/runs/${runId}${part}`),
        ...nodes.map(({ nodeId }) => `/api/v1/runs/${runId}/nodes/${nodeId}`),
      ]);
      const texts = [...paths, "/api/v1/audit?limit=200", "/api/v1/dead-letters", "/api/v1/workers"].map(
        async (path) => (await request(target, path, { token: target.tokens.admin })).text,
      );
      const metrics = request(target, "/metrics", { token: target.tokens.metrics }).then(({ text }) => text);
      const all = (await Promise.all([...texts, metrics])).join("\n");
      const found = Object.entries(encodingsOf(secret)).flatMap(([name, text]) => (all.includes(text) ? [name] : []));
      const had = /"has":(\d+)/.exec(all)?.[1] ?? "0";
      return judge(`the handler had ${had} characters; ${texts.length + 1} answers read; found: ${found.join(", ") || "none"}`, {
        "the handler did not get the secret": Number(had) !== secret.length,
        [`the secret was shown as ${found.join(", ")}`]: found.length > 0,
      });
    });
  },
};

export const handlerAttacks: readonly Attack[] = [poisonedResults, leakedSecret];
