// What adapters in a host keep under a name: the worker's registry knows it, its value stays in the process that registered it.

import { fault, isRecord, type JsonObject } from "@astraflow/protocol";
import type { HandlerResources, KeptResource, ResourceDraft } from "@astraflow/sdk";
import type { HostedResource, ToHost } from "./host-frames.ts";

export function toHostedResource({ value: _, ...rest }: KeptResource): HostedResource {
  return rest;
}

export class HostResources {
  readonly #send: (frame: ToHost) => void;
  /** Values in the memory of this process, by the number it gave them: lost with it. */
  readonly #liveResources = new Map<number, { readonly id: string; readonly resources: HandlerResources }>();
  readonly #leases: { readonly id: string; readonly resources: HandlerResources }[] = [];
  #isGone = false;

  constructor(send: (frame: ToHost) => void) {
    this.#send = send;
  }

  /** Throws a Fault where the operation does not exist or is refused. */
  carryOut(resources: HandlerResources, operation: string, args: JsonObject): unknown {
    const id = String(args["id"] ?? "");
    switch (operation) {
      case "register":
        return this.#register(resources, id, args);
      case "registerFile": {
        const details = { ...readDetails(args), ...(typeof args["type"] === "string" && { type: args["type"] }) };
        return toHostedResource(resources.registerFile(id, String(args["path"] ?? ""), details));
      }
      case "registerJson":
        return toHostedResource(resources.registerJson(id, String(args["text"] ?? ""), readDetails(args)));
      case "get": {
        const found = resources.get(id);
        return found === undefined ? null : toHostedResource(found);
      }
      case "upload": {
        const { filename, mimeType } = args;
        const named = { ...(typeof filename === "string" && { filename }), ...(typeof mimeType === "string" && { mimeType }) };
        return resources.upload(id, named);
      }
      case "download": {
        const details = { ...readDetails(args), ...(id !== "" && { id }) };
        return resources.download(String(args["resourceId"] ?? ""), details).then(toHostedResource);
      }
      case "readJson":
        return resources.readJson(id);
      case "lease": {
        const leased = resources.lease(id);
        this.#leases.push({ id, resources });
        return toHostedResource(leased);
      }
      case "release":
        return this.#release(resources, id);
      case "touch":
        return resources.touch(id, readNumber(args["expiresAt"]));
      case "drop":
        return resources.drop(id, ...(typeof args["reason"] === "string" ? [args["reason"]] : []));
      case "releaseScope":
        return resources.releaseScope(String(args["scope"] ?? ""));
      case "list": {
        const { scope, type } = args;
        const which = { ...(typeof scope === "string" && { scope }), ...(typeof type === "string" && { type }) };
        return resources.list(which).map(toHostedResource);
      }
      case "artifact":
        return resources.artifact(id, { inline: args["inline"] === true });
      default:
        throw fault("E.CMD.UNKNOWN", `resources have no operation ${operation}`);
    }
  }

  /** The process is gone, with its values and its leases. */
  releaseAll(): void {
    this.#isGone = true;
    for (const { id, resources } of this.#leases.splice(0)) resources.release(id);
    for (const { id, resources } of this.#liveResources.values()) resources.drop(id, "lost");
    this.#liveResources.clear();
  }

  #register(resources: HandlerResources, id: string, args: JsonObject): HostedResource {
    const value = readNumber(args["value"]);
    const path = typeof args["path"] === "string" ? { path: args["path"] } : {};
    const kept = resources.register({
      id,
      type: String(args["type"] ?? ""),
      ...path,
      ...readDetails(args),
      ...(value !== undefined && { onDrop: (reason: string) => this.#handleDrop(value, reason) }),
    });
    if (value !== undefined) this.#liveResources.set(value, { id, resources });
    return toHostedResource(kept);
  }

  #handleDrop(value: number, reason: string): void {
    if (this.#isGone) return;
    this.#liveResources.delete(value);
    this.#send({ type: "dropped", value, reason });
  }

  #release(resources: HandlerResources, id: string): null {
    const at = this.#leases.findIndex((lease) => lease.id === id);
    if (at >= 0) this.#leases.splice(at, 1);
    resources.release(id);
    return null;
  }
}

function readDetails(args: JsonObject): Pick<ResourceDraft, "scope" | "metadata" | "sizeBytes" | "expiresAt"> {
  const { scope, metadata } = args;
  const sizeBytes = readNumber(args["sizeBytes"]);
  const expiresAt = readNumber(args["expiresAt"]);
  return {
    ...(typeof scope === "string" && { scope }),
    ...(isRecord(metadata) && { metadata: metadata as JsonObject }),
    ...(sizeBytes !== undefined && { sizeBytes }),
    ...(expiresAt !== undefined && { expiresAt }),
  };
}

const readNumber = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);
