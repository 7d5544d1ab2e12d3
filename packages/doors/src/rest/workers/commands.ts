// Commands about workers, found again by their ids: what became of one, and the same one asked for twice under one key. What they do is the
// business of the routes; the engine keeps them.

import type { Ask, OrderBody, Reader } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { fault } from "@astraflow/protocol";
import { isConflict } from "../../people/people-store.ts";
import { type Call, type Reply, readIdempotencyKey } from "../call.ts";
import { viewCommandRef } from "./enrolment-view.ts";

export interface CommandsOptions {
  readonly reader: Reader;
  readonly digest: (text: string) => string;
}

/** A command that a caller wants carried out. */
export interface Wanted {
  /** Whether this command is what the same request led to. */
  readonly isIt: (command: OrderBody) => boolean;
  /** Its id where the caller gave no key. */
  readonly newId: () => string;
}

export interface Commands {
  find(tenant: string, id: string): Promise<{ readonly body: OrderBody | null; readonly head: number }>;
  /**
   * Carries it out under its id, unless it was before under the caller's key; answers which command it is. Null of `carryOut`: the engine
   * knows the key by such a command.
   */
  once(call: Call, wanted: Wanted, carryOut: (id: string, ask: Ask | null) => Promise<Ref | null>): Promise<Reply>;
}

type Ref = Parameters<typeof viewCommandRef>[1];

export function createCommands({ reader, digest }: CommandsOptions): Commands {
  const find: Commands["find"] = async (tenant, id) => {
    const { items, head } = await reader.page({ page: "doc", tenant, collection: "command", names: [id] });
    const [doc = null] = items;
    return { body: doc === null ? null : (JSON.parse(doc.body) as OrderBody), head };
  };
  const repeatOf = async (tenant: string, id: string, { isIt }: Wanted): Promise<Reply | null> => {
    const { body } = await find(tenant, id);
    if (body === null) return null;
    if (isIt(body)) return { body: viewCommandRef(id, body), headers: { ...locationOf(id), "idempotent-replayed": "true" } };
    throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for another command; use a new key");
  };

  return {
    find,
    async once(call, wanted, carryOut) {
      const key = readIdempotencyKey(call);
      const { tenant } = call.identity;
      const id = key === null ? wanted.newId() : digest(canonicalJson({ of: "command", tenant, key }));
      const before = key === null ? null : await repeatOf(tenant, id, wanted);
      if (before !== null) return before;
      // The engine keeps for it that the key is a command's; whether of this one, the command itself says.
      const ask = key === null ? null : { key, digest: id };
      try {
        const ref = await carryOut(id, ask);
        if (ref !== null) return { body: viewCommandRef(id, ref), headers: locationOf(id) };
        return (await repeatOf(tenant, id, wanted)) ?? forgotten();
      } catch (why) {
        // Another request under the same key was quicker.
        const other = isConflict(why) && key !== null ? await repeatOf(tenant, id, wanted) : null;
        if (other === null) throw why;
        return other;
      }
    },
  };
}

const forgotten = (): never => {
  throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for a command that is no longer kept; use a new key");
};

const locationOf = (id: string): Record<string, string> => ({ location: `/api/v1/commands/${id}` });
