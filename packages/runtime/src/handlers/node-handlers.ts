// The handlers of a package for Node, imported into this thread: the worker's own, or that of a host.

import { realpath } from "node:fs/promises";
import { errorMessage, Fault, fault, isSecretType, type JsonObject, type Manifest } from "@astraflow/protocol";
import type { PackageSetup } from "@astraflow/sdk";
import { importAdapter } from "./adapter-import.ts";
import type { RegisteredHandler } from "./handler.ts";
import type { VendorFrameHub } from "./vendor-frames.ts";

/** How long a `setup` may take before its handlers are offered without it having ended. */
const setupTimeoutMs = 10_000;

export interface FoundHandlers {
  /** By node type. */
  readonly handlers: ReadonlyMap<string, RegisteredHandler>;
  readonly problems: readonly Fault[];
}

/** What a handler is registered with, whoever runs it. */
export async function describeHandlers(dir: string, manifest: Manifest): Promise<Omit<RegisteredHandler, "handler" | "config">> {
  const needs = manifest.requirements.resources.filter(({ type }) => !isSecretType(type));
  // As the frames of a stack name it.
  return { packageDir: await realpath(dir), nonSecretKeys: new Set(needs.map(({ key }) => key)) };
}

/** A node that an adapter runs. */
export interface AdapterNode {
  readonly type: string;
  readonly adapter: string;
  readonly handler: string;
  readonly config: JsonObject;
  /** No node of the manifest, but a capability of the adapter, which may have a handler for it. */
  readonly isImplied: boolean;
}

/** The nodes that the manifest binds to the adapter, and the adapter's other capabilities. */
export function listAdapterNodes(adapter: Manifest["adapters"][number], manifest: Manifest): AdapterNode[] {
  const listed = new Set(manifest.nodes.map(({ type }) => type));
  return [
    ...manifest.nodes
      // Containers are listed for editors and carried out by the scheduler.
      .filter((node) => node.adapter === adapter.name && node.role !== "container")
      .map(({ type, handler, config }) => ({ type, adapter: adapter.name, handler, config, isImplied: false })),
    ...adapter.capabilities
      .filter((type) => !listed.has(type))
      .map((type) => {
        const handler = type.slice(type.lastIndexOf(".") + 1);
        return { type, adapter: adapter.name, handler, config: {}, isImplied: true };
      }),
  ];
}

/** What the registry keeps of a node. */
export function describeHandler(
  described: Omit<RegisteredHandler, "handler" | "config">,
  { config, handler: handlerKey, isImplied }: AdapterNode,
  handler: RegisteredHandler["handler"],
): RegisteredHandler {
  return { ...described, handler, config, ...(!isImplied && { handlerKey }) };
}

export async function loadNodeHandlers(dir: string, manifest: Manifest, vendorFrames: VendorFrameHub): Promise<FoundHandlers> {
  const handlers = new Map<string, RegisteredHandler>();
  const problems: Fault[] = [];
  const setups = new Set<PackageSetup>();
  const described = await describeHandlers(dir, manifest);
  for (const adapter of manifest.adapters.filter((one) => isForNode(one, manifest))) {
    const imported = await importAdapter(dir, adapter.entrypoint);
    if (imported instanceof Fault) {
      problems.push(imported);
      continue;
    }
    const nodes = listAdapterNodes(adapter, manifest);
    // A node may have called its handler `setup` before that name had a meaning.
    const setup = nodes.some((one) => one.handler === "setup") ? undefined : imported.setup;
    if (setup !== undefined && !setups.has(setup)) {
      setups.add(setup);
      const failed = await runSetup(setup, manifest, vendorFrames, adapter.entrypoint);
      if (failed !== null) {
        problems.push(failed);
        continue;
      }
    }
    for (const node of nodes) {
      const handler = imported.findHandler(node.handler) ?? imported.findHandler(node.type);
      if (handler !== undefined) handlers.set(node.type, describeHandler(described, node, handler));
      else if (!node.isImplied)
        problems.push(
          fault(
            "E.PKG.INVALID",
            `${node.type} names handler ${node.handler}, which ${adapter.entrypoint} does not export; it exports ${imported.listHandlers()}`,
          ),
        );
    }
  }
  return { handlers, problems };
}

/** Gives why the package cannot work without it. One that takes too long goes on by itself. */
async function runSetup(
  setup: PackageSetup,
  manifest: Manifest,
  vendorFrames: VendorFrameHub,
  entrypoint: string,
): Promise<Fault | null> {
  const { name: packageName, version: packageVersion } = manifest;
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, setupTimeoutMs);
  try {
    await Promise.race([setup({ packageName, packageVersion, ext: vendorFrames.handlerApi }), late.promise]);
    return null;
  } catch (thrown) {
    return fault("E.PKG.INVALID", `setup of ${entrypoint} failed: ${errorMessage(thrown)}`, undefined, thrown);
  } finally {
    clearTimeout(timer);
  }
}

/** The older manifests name a runtime, the newer ones only have a `node` or a `python` section; a script file speaks for itself. */
export function isForNode(adapter: Manifest["adapters"][number], manifest: Manifest): boolean {
  if (adapter.runtime === "node" || adapter.runtime === "python") return adapter.runtime === "node";
  if (manifest.node !== undefined && manifest.python === undefined) return true;
  return manifest.node !== undefined && /\.[cm]?[jt]s(:|$)/.test(adapter.entrypoint);
}
