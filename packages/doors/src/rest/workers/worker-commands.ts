// Commands about workers, found again by their ids: what became of one, and the same one asked for twice under one key. What they do is the
// business of the routes; the engine keeps them.

import type { IdempotencyKey, StoreReader, WorkerCommandRecord } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { fault } from "@astraflow/protocol";
import { isConflict, presentCommandRef } from "@astraflow/services";
import { type RestCall, type RestReply, readIdempotencyKey } from "../requests/rest-call.ts";

export interface WorkerCommandsOptions {
  readonly reader: StoreReader;
  readonly digest: (text: string) => string;
}

/** A command that a caller wants carried out. */
export interface WantedCommand {
  /** Whether this command is what the same request led to. */
  readonly isIt: (command: WorkerCommandRecord) => boolean;
  /** Its id where the caller gave no key. */
  readonly newId: () => string;
}

export interface WorkerCommands {
  find(tenant: string, id: string): Promise<{ readonly body: WorkerCommandRecord | null; readonly head: number }>;
  /**
   * Carries it out under its id, unless it was before under the caller's key; answers which command it is. Null of `carryOut`: the engine
   * knows the key by such a command.
   */
  runOnce(
    call: RestCall,
    wanted: WantedCommand,
    execute: (id: string, idempotencyKey: IdempotencyKey | null) => Promise<CommandSummary | null>,
  ): Promise<RestReply>;
}

type CommandSummary = Parameters<typeof presentCommandRef>[1];

export function createWorkerCommands({ reader, digest }: WorkerCommandsOptions): WorkerCommands {
  const find: WorkerCommands["find"] = async (tenant, id) => {
    const { items, head } = await reader.page({ page: "doc", tenant, collection: "command", names: [id] });
    const [doc = null] = items;
    return { body: doc === null ? null : (JSON.parse(doc.body) as WorkerCommandRecord), head };
  };
  const findRepeat = async (tenant: string, id: string, { isIt }: WantedCommand): Promise<RestReply | null> => {
    const { body } = await find(tenant, id);
    if (body === null) return null;
    if (isIt(body))
      return { body: presentCommandRef(id, body), headers: { ...locationHeader(id), "idempotent-replayed": "true" } };
    throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for another command; use a new key");
  };

  return {
    find,
    async runOnce(call, wanted, execute) {
      const key = readIdempotencyKey(call);
      const { tenant } = call.identity;
      const id = key === null ? wanted.newId() : digest(canonicalJson({ of: "command", tenant, key }));
      const earlier = key === null ? null : await findRepeat(tenant, id, wanted);
      if (earlier !== null) return earlier;
      // The engine keeps for it that the key is a command's; whether of this one, the command itself says.
      const idempotencyKey = key === null ? null : { key, digest: id };
      try {
        const ref = await execute(id, idempotencyKey);
        if (ref !== null) return { body: presentCommandRef(id, ref), headers: locationHeader(id) };
        return (await findRepeat(tenant, id, wanted)) ?? throwKeyExpired();
      } catch (why) {
        // Another request under the same key was quicker.
        const other = isConflict(why) && key !== null ? await findRepeat(tenant, id, wanted) : null;
        if (other === null) throw why;
        return other;
      }
    },
  };
}

const throwKeyExpired = (): never => {
  throw fault("E.IDEMPOTENCY.MISMATCH", "the Idempotency-Key was used for a command that is no longer kept; use a new key");
};

const locationHeader = (id: string): Record<string, string> => ({ location: `/api/v1/commands/${id}` });
