// Makes a reader from a schema: it drops, keeps or refuses unknown fields, checks the rest with a compiled validator and names what is wrong.

import type { Static, TSchema } from "typebox";
import { Compile } from "typebox/schema";
import { type Fault, fault } from "../faults/fault.ts";
import type { FaultCode } from "../faults/fault-codes.ts";
import { isRecord } from "../json/json-value.ts";
import { describeMisspelling } from "../text/closest-match.ts";
import {
  escapeForMessage,
  findFirstViolation,
  findViolations,
  type SchemaNode,
  type SchemaViolation,
} from "./schema-violations.ts";

type Trimmer = (value: unknown) => unknown;
type Predicate = (value: unknown) => boolean;

export interface SchemaReaderOptions {
  readonly code: FaultCode;
  /** What is being read, as the first part of the path in a message: `payload`, `body`, `workflow`. */
  readonly subject: string;
  /**
   * Unknown keys are dropped (so that newer peers can send more), kept, or make the whole value invalid. Objects whose schema forbids them
   * refuse them where the others are kept.
   */
  readonly unknownKeys: "drop" | "keep" | "refuse";
}

export interface SchemaReader<T> {
  readonly schema: TSchema;
  read(value: unknown): T | Fault;
  /** Everything that is wrong, field by field, up to `max`; empty if `read` would return the value. */
  findFaults(value: unknown, max: number): Fault[];
  /** Removes unknown fields without checking the rest; for outgoing messages of our own. */
  dropUnknownFields(value: unknown): unknown;
  compile(): void;
}

export function createSchemaReader<S extends TSchema>(schema: S, options: SchemaReaderOptions): SchemaReader<Static<S>> {
  const source = options.unknownKeys === "refuse" ? (closeSchemaNode(schema as SchemaNode) as S) : schema;
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
      return check(trimmed) ? (trimmed as Static<S>) : toFault(findFirstViolation(source as SchemaNode, trimmed), value, options);
    },
    findFaults(value, max) {
      const { check, onRead } = prepare();
      const trimmed = onRead(value);
      if (check(trimmed)) return [];
      const faults: Fault[] = [];
      for (const violation of findViolations(source as SchemaNode, trimmed))
        if (faults.push(toFault(violation, value, options)) >= max) break;
      return faults.length === 0 ? [toFault(undefined, value, options)] : faults;
    },
  };
}

const identity: Trimmer = (value) => value;

/** The same schema, closed: objects with named properties refuse others unless they are declared open. Recursive schemas stay as they are. */
export function closeSchemaNode(node: SchemaNode): SchemaNode {
  if (!node.properties && !node.items && !node.anyOf) return node;
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
    const defs: NonNullable<TrimContext["defs"]> = new Map(
      Object.entries(node.$defs).map(([key, child]) => [key, { node: child }]),
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
  // With several object forms we cannot know before the check which one is meant; none of our inputs has that.
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
      if (!isUnchanged && dropUnknown) break; // do not look at a hundred thousand unknown keys
    }
    if (isUnchanged) return changed ? { ...value, ...changed } : value;
    return dropUnknown ? pick(value) : withoutNulls({ ...value, ...changed });
  };

  /** A new object of the known keys only: its cost does not depend on what a peer adds. */
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
function toFault(violation: SchemaViolation | undefined, value: unknown, options: SchemaReaderOptions): Fault {
  const path = [options.subject, ...(violation?.path ?? []).map(escapeForMessage)].join(".");
  const expected = violation?.expected ?? "does not have the expected shape";
  const { minLength } = violation ?? {};
  const hint = violation === undefined ? "" : suggestMisspelling(violation, value);
  return fault(options.code, `${path} ${expected}${hint}`, { path, expected, ...(minLength !== undefined && { minLength }) });
}

/** Looks at the value as it was sent: unknown fields may have been dropped from what was checked. */
function suggestMisspelling({ path, missing }: SchemaViolation, value: unknown): string {
  if (missing === undefined) return "";
  let found: unknown = value;
  for (const step of path)
    found = typeof found === "object" && found !== null ? (found as Record<string, unknown>)[step] : undefined;
  const { fields, known } = missing;
  return isRecord(found) ? describeMisspelling(fields, found, (field) => Object.hasOwn(known, field)) : "";
}
