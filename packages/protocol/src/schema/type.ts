// The schema builders we use, as plain JSON Schema. The types are typebox's; its own builders are 370 modules with a whole language behind
// them, and loading those was a third of the start of every process and thread.

import type * as TypeBox from "typebox";

type Options = Readonly<Record<string, unknown>>;
type Properties = Readonly<Record<string, object>>;

const optionalSchemas = new WeakSet<object>();

function buildObject(properties: Properties, options?: Options): object {
  const required = Object.keys(properties).filter((key) => !optionalSchemas.has(properties[key] as object));
  return { type: "object", ...(required.length > 0 && { required }), properties, ...options };
}

function buildOptional(schema: object): object {
  const copy = { ...schema };
  optionalSchemas.add(copy);
  return copy;
}

const ofType =
  (type: string) =>
  (options?: Options): object => ({ type, ...options });

const builders = {
  Array: (items: object, options?: Options) => ({ type: "array", items, ...options }),
  Boolean: ofType("boolean"),
  Cyclic: ($defs: Properties, $ref: string, options?: Options) => ({
    $defs: Object.fromEntries(Object.entries($defs).map(([key, schema]) => [key, { ...schema, $id: key }])),
    $ref,
    ...options,
  }),
  Integer: ofType("integer"),
  Intersect: (allOf: readonly object[], options?: Options) => ({ allOf, ...options }),
  Literal: (value: string | number | boolean, options?: Options) => ({ type: typeof value, const: value, ...options }),
  Null: ofType("null"),
  Number: ofType("number"),
  Object: buildObject,
  Optional: buildOptional,
  Ref: ($ref: string, options?: Options) => ({ $ref, ...options }),
  String: ofType("string"),
  Union: (anyOf: readonly object[], options?: Options) => ({ anyOf, ...options }),
  Unsafe: (schema: object) => ({ ...schema }),
} satisfies Record<string, (...parts: never[]) => object>;

export const Type = builders as unknown as Pick<typeof TypeBox.Type, keyof typeof builders>;
