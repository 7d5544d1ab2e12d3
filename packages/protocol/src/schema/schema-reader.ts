// From a schema to a reader: trims what is not ours, checks the rest with a compiled validator, names what is wrong.
// Which schema belongs to which message is decided elsewhere; bytes are read in read-json.ts.

import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { type Fault, fault } from "../faults/fault.ts";
import type { FaultCode } from "../faults/fault-codes.ts";
import {
  escapeForMessage,
  findFirstViolation,
  findViolations,
  isRecord,
  type SchemaNode,
  type SchemaViolation,
} from "./schema-violations.ts";

type Trimmer = (value: unknown) => unknown;
type Predicate = (value: unknown) => boolean;

export interface SchemaReaderOptions {
  readonly code: FaultCode;
  /** What is being read, as the first word of the path in a message: `payload`, `body`, `workflow`. */
  readonly subject: string;
  /** Unknown keys are dropped (a newer peer loses nothing, we store nothing we do not know) or make the whole thing wrong. */
  readonly unknownKeys: "drop" | "refuse";
}

export interface SchemaReader<T> {
  readonly schema: TSchema;
  read(value: unknown): T | Fault;
  /** All that is wrong, field by field, up to a number of faults; empty where `read` would give the value. */
  findFaults(value: unknown, max: number): Fault[];
  /** Removes what the schema does not know, without checking the rest; for messages of our own on their way out. */
  dropUnknownFields(value: unknown): unknown;
  /** Compiles now rather than on the first message, which may come from a stranger. */
  compile(): void;
}

export function createSchemaReader<S extends TSchema>(schema: S, options: SchemaReaderOptions): SchemaReader<Static<S>> {
  const source = options.unknownKeys === "refuse" ? closeSchema(schema) : schema;
  let compiled: { check: Predicate; onRead: Trimmer; onSend: Trimmer } | undefined;
  const prepare = () => {
    if (compiled) return compiled;
    const validator = Compile(source);
    compiled = {
      check: (value) => validator.Check(value),
      onRead: buildTrimmer(source as SchemaNode, { dropUnknown: options.unknownKeys === "drop" }) ?? identity,
      onSend: buildTrimmer(source as SchemaNode, { dropUnknown: true }) ?? identity,
    };
    return compiled;
  };
  return {
    schema: source,
    compile: () => void prepare(),
    dropUnknownFields: (value) => prepare().onSend(value),
    read(value) {
      const { check, onRead } = prepare();
      const trimmed = onRead(value);
      return check(trimmed) ? (trimmed as Static<S>) : toFault(findFirstViolation(source as SchemaNode, trimmed), options);
    },
    findFaults(value, max) {
      const { check, onRead } = prepare();
      const trimmed = onRead(value);
      if (check(trimmed)) return [];
      const faults: Fault[] = [];
      for (const violation of findViolations(source as SchemaNode, trimmed))
        if (faults.push(toFault(violation, options)) >= max) break;
      return faults.length === 0 ? [toFault(undefined, options)] : faults;
    },
  };
}

const identity: Trimmer = (value) => value;

/** The same schema, closed: every object with named properties refuses others, unless it says it is open. */
function closeSchema<S extends TSchema>(schema: S): S {
  return closeSchemaNode(schema as SchemaNode) as S;
}

function closeSchemaNode(node: SchemaNode): SchemaNode {
  const closed: Record<string, unknown> = { ...node };
  if (node.properties) {
    closed["properties"] = Object.fromEntries(
      Object.entries(node.properties).map(([key, child]) => [key, closeSchemaNode(child)]),
    );
    closed["additionalProperties"] = node.additionalProperties ?? false;
  }
  if (node.items) closed["items"] = closeSchemaNode(node.items);
  if (node.anyOf) closed["anyOf"] = node.anyOf.map(closeSchemaNode);
  return closed;
}

const acceptsNull = (node: SchemaNode): boolean =>
  node.type === "null" ||
  (node.type === undefined && node.anyOf === undefined && node.$ref === undefined) ||
  (node.anyOf?.some(acceptsNull) ?? false);

type TrimContext = { dropUnknown: boolean; defs?: Map<string, { node: SchemaNode; trim?: Trimmer }> };

/** Copies only where something has to go, so an ordinary message costs no allocation and the caller's object stays as it was. */
function buildTrimmer(node: SchemaNode, context: TrimContext): Trimmer | undefined {
  if (node.$defs) {
    const defs = new Map(
      Object.entries(node.$defs).map(([key, child]) => [key, { node: child } as { node: SchemaNode; trim?: Trimmer }]),
    );
    const inner = { ...context, defs };
    for (const def of defs.values()) def.trim = buildTrimmer(def.node, inner) ?? identity;
    return buildTrimmer({ ...(node.$ref && { $ref: node.$ref }) }, inner);
  }
  if (node.$ref) {
    const def = context.defs?.get(node.$ref);
    return def && ((value) => (def.trim ?? identity)(value));
  }
  if (node.properties) return buildObjectTrimmer(node, context);
  if (isRecord(node.additionalProperties)) return buildMapTrimmer(node.additionalProperties as SchemaNode, context);
  if (node.items) return buildArrayTrimmer(node.items, context);
  // Of several object forms we cannot know which is meant before the check; none of our inputs has that.
  const forms = node.anyOf?.map((form) => buildTrimmer(form, context)).filter((trim) => trim !== undefined);
  return forms?.length === 1 ? forms[0] : undefined;
}

function buildObjectTrimmer(node: SchemaNode, context: TrimContext): Trimmer {
  const required = new Set(node.required);
  const known = new Map(
    Object.entries(node.properties ?? {}).map(([key, child]) => [
      key,
      { trim: buildTrimmer(child, context), dropNull: !required.has(key) && !acceptsNull(child) },
    ]),
  );
  const isOpen = node.additionalProperties === true || isRecord(node.additionalProperties);
  const dropUnknown = context.dropUnknown && !isOpen;
  return (value) => {
    if (!isRecord(value)) return value;
    let isUnchanged = true; // nothing has to go
    let changed: Record<string, unknown> | undefined;
    for (const key of Object.keys(value)) {
      const rule = known.get(key);
      const item = value[key];
      if (rule === undefined) {
        if (dropUnknown) isUnchanged = false;
      } else if (item === undefined || (item === null && rule.dropNull)) isUnchanged = false;
      else if (rule.trim) {
        const trimmed = rule.trim(item);
        if (trimmed !== item) (changed ??= {})[key] = trimmed;
      }
      if (!isUnchanged && dropUnknown) break; // a hundred thousand unknown keys are not worth a look each
    }
    if (isUnchanged) return changed ? { ...value, ...changed } : value;
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

function buildMapTrimmer(values: SchemaNode, context: TrimContext): Trimmer | undefined {
  const trim = buildTrimmer(values, context);
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

function buildArrayTrimmer(items: SchemaNode, context: TrimContext): Trimmer | undefined {
  const trim = buildTrimmer(items, context);
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
function toFault(violation: SchemaViolation | undefined, options: SchemaReaderOptions): Fault {
  const path = [options.subject, ...(violation?.path ?? []).map(escapeForMessage)].join(".");
  const expected = violation?.expected ?? "does not have the expected shape";
  return fault(options.code, `${path} ${expected}`, { path, expected });
}
