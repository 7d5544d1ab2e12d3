// How a node's handler will behave, as plain data inside the node's parameters. The seed decides it when the workflow is generated, so it does not depend
// on which worker gets the task.

import type { JsonObject, JsonValue } from "@astraflow/protocol";

export interface HandlerBehaviour {
  /**
   * quick, slow: ends well after `ms` · chatty: the same with feedback on the way · failing: says FAILED · throwing: throws ·
   * skipping: says SKIPPED · hanging: ends only when told to stop · deaf: goes on for `ms` whatever it is told · killing: ends its
   * process after `ms`.
   */
  readonly kind: "quick" | "slow" | "chatty" | "failing" | "throwing" | "skipping" | "hanging" | "deaf" | "killing";
  readonly ms: number;
  /** How often a chatty one speaks; three times where it does not say. */
  readonly words?: number;
}

/** What a simulated handler reads from its parameters. */
export interface HandlerScript {
  /** One per attempt; the last one stays. */
  readonly behaviours: readonly HandlerBehaviour[];
  /** The node's concurrency key and its limit, repeated here so that an onlooker sees them at the handler. */
  readonly key: string | null;
  readonly limit: number;
  /** The node's name in the value it returns; absent: it returns who it is. */
  readonly name?: string;
  /** Of a middleware. */
  readonly wrap?: MiddlewareScript;
  /** Leaves something with its worker and returns where it lies. */
  readonly keeps?: true;
}

/** How a middleware uses the rest of its chain. */
export interface MiddlewareScript {
  /** How often it asks for the next; 0 withholds it. */
  readonly calls: number;
  /** Writes the number of the call into the parameters of what it calls, under this name. */
  readonly mark: string | null;
  readonly timeoutMs: number | null;
  /** Goes on when a call ends badly; else its own attempt ends with it. */
  readonly isForgiving: boolean;
}

/** The name of the parameter. */
const handlerScriptParameter = "sim";

export function writeHandlerScript({ behaviours, wrap, ...rest }: HandlerScript): JsonObject {
  return {
    [handlerScriptParameter]: {
      behaviours: behaviours.map((behaviour) => ({ ...behaviour })),
      ...rest,
      ...(wrap !== undefined && { wrap: { ...wrap } }),
    },
  };
}

export function readHandlerScript(params: JsonObject): HandlerScript {
  return params[handlerScriptParameter] as JsonValue as unknown as HandlerScript;
}

export function behaviourOfAttempt(script: HandlerScript, attempt: number): HandlerBehaviour {
  const behaviour = script.behaviours[Math.min(attempt, script.behaviours.length) - 1];
  if (behaviour === undefined) throw new Error("node has no handler behaviour");
  return behaviour;
}
