// From a schema to a reader: trims what is not ours, checks the rest with a compiled validator, names what is wrong.
// Which schema belongs to which message is decided elsewhere; bytes are read in json.ts.

import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { findWrong, isRecord, printable, type SchemaNode, type Wrong, wrongsIn } from "./explain.ts";
import { type Fault, fault } from "./fault.ts";
import type { FaultCode } from "./fault-codes.ts";

type Trim = (value: unknown) => unknown;
type Check = (value: unknown) => boolean;

export interface ShapeOptions {
  readonly code: FaultCode;
  /** What is being read, as the first word of the path in a message: `payload`, `body`, `workflow`. */
  readonly what: string;
  /** Unknown keys are dropped (a newer peer loses nothing, we store nothing we do not know) or make the whole thing wrong. */
  readonly unknown: "drop" | "refuse";
}

export interface Shape<T> {
  readonly schema: TSchema;
  read(value: unknown): T | Fault;
  /** All that is wrong, field by field, up to a number of faults; empty where `read` would give the value. */
  faults(value: unknown, max: number): Fault[];
  /** Removes what the schema does not know, without checking the rest; for messages of our own on their way out. */
  trim(value: unknown): unknown;
  /** Compiles now rather than on the first message, which may come from a stranger. */
  prepare(): void;
}

export function shape<S extends TSchema>(schema: S, options: ShapeOptions): Shape<Static<S>> {
  const source = options.unknown === "refuse" ? seal(schema) : schema;
  let compiled: { check: Check; onRead: Trim; onSend: Trim } | undefined;
  const prepare = () => {
    if (compiled) return compiled;
    const validator = Compile(source);
    compiled = {
      check: (value) => validator.Check(value),
      onRead: trimmer(source as SchemaNode, { dropUnknown: options.unknown === "drop" }) ?? same,
      onSend: trimmer(source as SchemaNode, { dropUnknown: true }) ?? same,
    };
    return compiled;
  };
  return {
    schema: source,
    prepare: () => void prepare(),
    trim: (value) => prepare().onSend(value),
    read(value) {
      const { check, onRead } = prepare();
      const trimmed = onRead(value);
      return check(trimmed) ? (trimmed as Static<S>) : explain(findWrong(source as SchemaNode, trimmed), options);
    },
    faults(value, max) {
      const { check, onRead } = prepare();
      const trimmed = onRead(value);
      if (check(trimmed)) return [];
      const faults: Fault[] = [];
      for (const wrong of wrongsIn(source as SchemaNode, trimmed)) if (faults.push(explain(wrong, options)) >= max) break;
      return faults.length === 0 ? [explain(undefined, options)] : faults;
    },
  };
}

const same: Trim = (value) => value;

/** The same schema, closed: every object with named properties refuses others, unless it says it is open. */
function seal<S extends TSchema>(schema: S): S {
  return sealNode(schema as SchemaNode) as S;
}

function sealNode(node: SchemaNode): SchemaNode {
  const sealed: Record<string, unknown> = { ...node };
  if (node.properties) {
    sealed["properties"] = Object.fromEntries(Object.entries(node.properties).map(([key, child]) => [key, sealNode(child)]));
    sealed["additionalProperties"] = node.additionalProperties ?? false;
  }
  if (node.items) sealed["items"] = sealNode(node.items);
  if (node.anyOf) sealed["anyOf"] = node.anyOf.map(sealNode);
  return sealed;
}

const acceptsNull = (node: SchemaNode): boolean =>
  node.type === "null" ||
  (node.type === undefined && node.anyOf === undefined && node.$ref === undefined) ||
  (node.anyOf?.some(acceptsNull) ?? false);

type TrimContext = { dropUnknown: boolean; defs?: Map<string, { node: SchemaNode; trim?: Trim }> };

/** Copies only where something has to go, so an ordinary message costs no allocation and the caller's object stays as it was. */
function trimmer(node: SchemaNode, context: TrimContext): Trim | undefined {
  if (node.$defs) {
    const defs = new Map(
      Object.entries(node.$defs).map(([key, child]) => [key, { node: child } as { node: SchemaNode; trim?: Trim }]),
    );
    const inner = { ...context, defs };
    for (const def of defs.values()) def.trim = trimmer(def.node, inner) ?? same;
    return trimmer({ ...(node.$ref && { $ref: node.$ref }) }, inner);
  }
  if (node.$ref) {
    const def = context.defs?.get(node.$ref);
    return def && ((value) => (def.trim ?? same)(value));
  }
  if (node.properties) return objectTrimmer(node, context);
  if (isRecord(node.additionalProperties)) return mapTrimmer(node.additionalProperties as SchemaNode, context);
  if (node.items) return arrayTrimmer(node.items, context);
  // Of several object forms we cannot know which is meant before the check; none of our inputs has that.
  const forms = node.anyOf?.map((form) => trimmer(form, context)).filter((trim) => trim !== undefined);
  return forms?.length === 1 ? forms[0] : undefined;
}

function objectTrimmer(node: SchemaNode, context: TrimContext): Trim {
  const required = new Set(node.required);
  const known = new Map(
    Object.entries(node.properties ?? {}).map(([key, child]) => [
      key,
      { trim: trimmer(child, context), dropNull: !required.has(key) && !acceptsNull(child) },
    ]),
  );
  const isOpen = node.additionalProperties === true || isRecord(node.additionalProperties);
  const dropUnknown = context.dropUnknown && !isOpen;
  return (value) => {
    if (!isRecord(value)) return value;
    let isOurs = true; // nothing has to go
    let changed: Record<string, unknown> | undefined;
    for (const key of Object.keys(value)) {
      const rule = known.get(key);
      const item = value[key];
      if (rule === undefined) {
        if (dropUnknown) isOurs = false;
      } else if (item === undefined || (item === null && rule.dropNull)) isOurs = false;
      else if (rule.trim) {
        const trimmed = rule.trim(item);
        if (trimmed !== item) (changed ??= {})[key] = trimmed;
      }
      if (!isOurs && dropUnknown) break; // a hundred thousand unknown keys are not worth a look each
    }
    if (isOurs) return changed ? { ...value, ...changed } : value;
    return dropUnknown ? pick(value) : withoutNulls({ ...value, ...changed });
  };

  /** A new object of the known keys alone: its cost does not grow with what a peer adds. */
  function pick(value: Record<string, unknown>): Record<string, unknown> {
    const picked: Record<string, unknown> = {};
    for (const [key, rule] of known) {
      const item = Object.hasOwn(value, key) ? value[key] : undefined;
      if (item === undefined || (item === null && rule.dropNull)) continue;
      picked[key] = rule.trim ? rule.trim(item) : item;
    }
    return picked;
  }

  function withoutNulls(copy: Record<string, unknown>): Record<string, unknown> {
    for (const [key, rule] of known) if (copy[key] === undefined || (copy[key] === null && rule.dropNull)) delete copy[key];
    return copy;
  }
}

function mapTrimmer(values: SchemaNode, context: TrimContext): Trim | undefined {
  const trim = trimmer(values, context);
  if (!trim) return undefined;
  return (value) => {
    if (!isRecord(value)) return value;
    let changed: Record<string, unknown> | undefined;
    for (const key of Object.keys(value)) {
      const trimmed = trim(value[key]);
      if (trimmed !== value[key]) (changed ??= { ...value })[key] = trimmed;
    }
    return changed ?? value;
  };
}

function arrayTrimmer(items: SchemaNode, context: TrimContext): Trim | undefined {
  const trim = trimmer(items, context);
  if (!trim) return undefined;
  return (value) => {
    if (!Array.isArray(value)) return value;
    let changed: unknown[] | undefined;
    for (let i = 0; i < value.length; i += 1) {
      const trimmed = trim(value[i]);
      if (trimmed !== value[i]) (changed ??= [...value])[i] = trimmed;
    }
    return changed ?? value;
  };
}

/** Names the field and what was expected. Values stay out of the message: they may be secrets. */
function explain(wrong: Wrong | undefined, options: ShapeOptions): Fault {
  const path = [options.what, ...(wrong?.path ?? []).map(printable)].join(".");
  const expected = wrong?.expected ?? "does not have the expected shape";
  return fault(options.code, `${path} ${expected}`, { path, expected });
}
