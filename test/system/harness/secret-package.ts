// A package that requests a secret and leaks it: in calls, results and output. For the system test of resources.

import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Workflow } from "@astraflow/protocol";
import { makeTemporaryFolder } from "./processes.ts";

const packageSource = `
  import { createHash } from "node:crypto";
  const digestOf = (ctx) => {
    const value = ctx.resourceBindings.door?.value;
    return value === undefined ? null : createHash("sha256").update(value).digest("hex");
  };
  const seenBy = (ctx) => ({ digest: digestOf(ctx), errors: ctx.resourceBindingErrors });
  const boast = (ctx) => {
    ctx.feedback.send({ stage: "boasting", metadata: { results: { mine: ctx.params }, mine: ctx.params } });
    const { value = "" } = ctx.resourceBindings.door ?? {};
    ctx.feedback.emitText("told in two parts: " + value.slice(0, 9), { metadata: { mine: ctx.params } });
    ctx.feedback.emitText(value.slice(9) + ", that is all", { metadata: { mine: ctx.params } });
    ctx.feedback.send({ message: "it is " + value, metadata: { results: { said: value } } });
  };
  export const open = (ctx) => {
    boast(ctx);
    return { seen: seenBy(ctx), mine: ctx.params, told: ctx.resourceBindings.door?.value ?? null };
  };
  export const guard = async (ctx) => {
    boast(ctx);
    const outcome = await ctx.next({ ...ctx.params, from: "guard" }, { mine: ctx.params }, { mine: ctx.params });
    return { seen: seenBy(ctx), outcome };
  };
  export const jam = (ctx) => {
    boast(ctx);
    throw new Error("the lock is jammed by " + ctx.resourceBindings.door?.value);
  };
`;

/** The folder that holds it. */
export function makeSecretPackage(): string {
  const folder = makeTemporaryFolder();
  mkdirSync(join(folder, "vault"));
  const usual = { status: "published", category: "Tests", adapter: "main", schema: {} };
  const manifest = {
    schemaVersion: "1.0.0",
    name: "vault",
    version: "1.0.0",
    description: "",
    adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: ["vault.all"] }],
    node: { requires: ">=22" },
    nodes: ["open", "guard", "jam"].map((handler) => ({
      ...usual,
      type: `vault.${handler}`,
      ...(handler === "guard" && { role: "middleware" }),
      label: handler,
      handler,
    })),
    requirements: { resources: [{ key: "door", type: "secret" }] },
  };
  writeFileSync(join(folder, "vault", "manifest.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "vault", "main.mjs"), packageSource);
  return folder;
}

/** One node of it, behind a guard where that is asked for. */
export function secretWorkflow(handler: "open" | "jam", options: { isGuarded?: boolean } = {}): Workflow {
  const one = (name: string) => ({
    id: randomUUID(),
    type: `vault.${name}`,
    label: name,
    package: { name: "vault", version: "1.0.0" },
    parameters: { to: "ann" },
    ui: { inputPorts: [], outputPorts: [] },
  });
  const middlewares = options.isGuarded === true ? [{ ...one("guard"), role: "middleware" }] : [];
  return {
    id: randomUUID(),
    schemaVersion: "2025-10",
    metadata: { name: `Vault ${handler}` },
    nodes: [{ ...one(handler), position: { x: 0, y: 0 }, ...(middlewares.length > 0 && { middlewares }) }],
    edges: [],
  } as unknown as Workflow;
}
