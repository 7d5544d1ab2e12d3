// What a worker can run, read from the manifests it shows: one line per node type. For operators; what is placed where is decided by packages.

import type { WorkerDescription } from "@astraflow/engine";
import { Fault, readManifest } from "@astraflow/protocol";

type Handlers = NonNullable<WorkerDescription["handlers"]>;

const handlerLimits = {
  /** The worker's row is written with its heartbeats, so this must stay small. */
  bytesMax: 8 * 1024,
  capabilitiesMax: 16,
} as const;

export interface ReportedPackage {
  readonly name: string;
  readonly version: string;
  readonly manifest?: unknown;
}

/** As many as fit into the bound, in the order shown. A manifest that is none is left out: the package is listed all the same. */
export function readHandlers(reported: readonly ReportedPackage[]): Handlers {
  const handlers: Handlers[number][] = [];
  let bytes = 0;
  for (const { name, version, manifest: written } of reported) {
    const manifest = readManifest(written);
    if (manifest instanceof Fault) continue;
    const adapters = new Map(manifest.adapters.map((adapter) => [adapter.name, adapter]));
    for (const node of manifest.nodes) {
      const adapter = adapters.get(node.adapter);
      const runtime = adapter?.runtime ?? (manifest.node !== undefined && manifest.python === undefined ? "node" : "python");
      const capabilities = (adapter?.capabilities ?? []).slice(0, handlerLimits.capabilitiesMax);
      const handler = { package: name, version, runtime, nodeType: node.type, capabilities };
      bytes += Buffer.byteLength(JSON.stringify(handler)) + 1;
      if (bytes > handlerLimits.bytesMax) return handlers;
      handlers.push(handler);
    }
  }
  return handlers;
}
