// Handlers by package, version and node type. What a handler is given is in @astraflow/sdk, which package authors see; who calls it is
// handler-executor.ts.

import type { JsonObject } from "@astraflow/protocol";
import type { NodeHandler } from "@astraflow/sdk";

export interface RegisteredHandler {
  readonly handler: NodeHandler;
  readonly config: JsonObject;
  /** What its node calls it: a task may name that instead of the type. */
  readonly handlerKey?: string;
  /** Where the package really lies; absent: it is not on disk. */
  readonly packageDir?: string;
  /** Keys of what its package asks for that is no secret; absent: all may be. */
  readonly nonSecretKeys?: ReadonlySet<string>;
}

/** Handlers by package, version and type of node, or the key of the handler: versions live side by side. */
export class HandlerRegistry {
  readonly #handlers = new Map<string, RegisteredHandler>();
  /** Null: several nodes name it, so that it is not known whose settings are meant. */
  readonly #byKey = new Map<string, RegisteredHandler | null>();

  add(of: { packageName: string; packageVersion: string; nodeType: string }, found: RegisteredHandler): void {
    this.#handlers.set(handlerName(of.packageName, of.packageVersion, of.nodeType), found);
    if (found.handlerKey === undefined) return;
    const name = handlerName(of.packageName, of.packageVersion, found.handlerKey);
    this.#byKey.set(name, this.#byKey.has(name) ? null : found);
  }

  /** `called`: a node type, or the key of a handler. */
  findHandler(packageName: string, packageVersion: string, called: string): RegisteredHandler | undefined {
    const name = handlerName(packageName, packageVersion, called);
    return this.#handlers.get(name) ?? this.#byKey.get(name) ?? undefined;
  }

  /** Other versions stay. */
  removeVersion(packageName: string, packageVersion: string): void {
    const prefix = handlerName(packageName, packageVersion, "");
    for (const names of [this.#handlers, this.#byKey])
      for (const name of names.keys()) if (name.startsWith(prefix)) names.delete(name);
  }

  get size(): number {
    return this.#handlers.size;
  }
}

function handlerName(packageName: string, packageVersion: string, called: string): string {
  return `${packageName}\n${packageVersion}\n${called}`;
}
