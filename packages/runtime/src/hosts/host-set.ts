// All hosts of a worker: one for each package version and runtime, opened when the package is loaded, drained when it is removed.

import { fault, isFaultCode, type JsonObject, type Manifest } from "@astraflow/protocol";
import type { AttemptContext } from "../handlers/attempt-context.ts";
import type { RegisteredHandler } from "../handlers/handler.ts";
import { describeHandler, describeHandlers, isForNode, listAdapterNodes } from "../handlers/node-handlers.ts";
import type { HostedHandlers, PackageHosting } from "../handlers/package-loader.ts";
import type { VendorFrameHub } from "../handlers/vendor-frames.ts";
import { sendVendorFrame } from "./host-calls.ts";
import type { HostedPackage } from "./host-frames.ts";
import { type HostPrograms, type HostRuntime, hostCommand } from "./host-programs.ts";
import { PackageHost, type PackageHostPorts, type PackageHostSettings } from "./package-host.ts";
import { spawnHost } from "./spawn-host.ts";

/** Everything that decides how hosts run; plain data. */
export interface HostingSettings extends HostPrograms, PackageHostSettings {
  readonly hostsNode: boolean;
  /** For authors: a reload also replaces packages whose manifest is the same, but not all of their files. */
  readonly noticesEveryFile?: boolean;
}

export type HostSetPorts = Pick<PackageHostPorts, "environment" | "groupStarted" | "groupEnded" | "reportProblem">;

export class HostSet implements PackageHosting {
  readonly hostsNode: boolean;
  readonly noticesEveryFile: boolean;
  readonly #ports: HostSetPorts;
  readonly #settings: HostingSettings;
  readonly #hosts = new Set<PackageHost>();

  constructor(ports: HostSetPorts, settings: HostingSettings) {
    this.#ports = ports;
    this.#settings = settings;
    this.hostsNode = settings.hostsNode;
    this.noticesEveryFile = settings.noticesEveryFile ?? false;
  }

  async openHost(hosted: {
    readonly runtime: HostRuntime;
    readonly dir: string;
    readonly manifest: Manifest;
    readonly vendorFrames: VendorFrameHub;
  }): Promise<HostedHandlers> {
    const { runtime, dir, manifest, vendorFrames } = hosted;
    const described = await describeHandlers(dir, manifest);
    const packageDir = described.packageDir ?? dir;
    const command = hostCommand(runtime, packageDir, this.#settings);
    const listeners = new VendorListeners(vendorFrames, (frame) => host.deliverVendorFrame(frame));
    const { environment } = this.#ports;
    const host = new PackageHost(
      describePackage(runtime, packageDir, manifest),
      {
        ...this.#ports,
        spawnHost: (listener) => spawnHost(command, listener, environment),
        listenedTypesChanged: (types) => listeners.set(types),
        sendVendorFrame: (draft) => sendVendorFrame(vendorFrames.handlerApi, draft),
      },
      readHostSettings(this.#settings),
    );
    this.#hosts.add(host);
    const end = async (how: "drain" | "close"): Promise<void> => {
      listeners.set([]);
      await host[how]();
      this.#hosts.delete(host);
    };
    try {
      const { handlers: nodeTypes, problems } = await host.open();
      const handlers = new Map<string, RegisteredHandler>();
      for (const node of host.package.nodes)
        if (nodeTypes.includes(node.type))
          // The executor makes no other contexts.
          handlers.set(
            node.type,
            describeHandler(described, node, (context) => host.call(context as AttemptContext, node.type)),
          );
      return {
        handlers,
        problems: problems.map(({ code, message }) => fault(isFaultCode(code) ? code : "E.PKG.INVALID", message)),
        drain: () => end("drain"),
      };
    } catch (thrown) {
      await end("close");
      throw thrown;
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#hosts].map((host) => host.close()));
  }
}

function readHostSettings(settings: HostingSettings): PackageHostSettings {
  const { execMode, parallelMax, memoryMbMax, cpuSecondsMax, cancelGraceMs } = settings;
  return {
    execMode,
    parallelMax,
    cancelGraceMs,
    ...(memoryMbMax !== undefined && { memoryMbMax }),
    ...(cpuSecondsMax !== undefined && { cpuSecondsMax }),
  };
}

/** The adapters of one runtime, and their nodes. */
function describePackage(runtime: HostRuntime, dir: string, manifest: Manifest): HostedPackage {
  const adapters = manifest.adapters.filter((adapter) => isForNode(adapter, manifest) === (runtime === "node"));
  return {
    name: manifest.name,
    version: manifest.version,
    dir,
    adapters: adapters.map(({ name, entrypoint, metadata = {} }) => ({ name, entrypoint, metadata: metadata as JsonObject })),
    nodes: adapters.flatMap((adapter) => listAdapterNodes(adapter, manifest)),
  };
}

/** The types of vendor frames that one host listens to. */
class VendorListeners {
  readonly #vendorFrames: VendorFrameHub;
  readonly #deliver: Parameters<VendorFrameHub["handlerApi"]["on"]>[1];
  readonly #stop = new Map<string, () => void>();

  constructor(vendorFrames: VendorFrameHub, deliver: Parameters<VendorFrameHub["handlerApi"]["on"]>[1]) {
    this.#vendorFrames = vendorFrames;
    this.#deliver = deliver;
  }

  set(types: readonly string[]): void {
    for (const [type, stop] of this.#stop) {
      if (types.includes(type)) continue;
      stop();
      this.#stop.delete(type);
    }
    for (const type of types)
      if (!this.#stop.has(type)) this.#stop.set(type, this.#vendorFrames.handlerApi.on(type, this.#deliver));
  }
}
