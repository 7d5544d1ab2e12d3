import { buildOpenapiDocument } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { readEdits } from "./read-edits.ts";

interface FieldSchema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
  readonly pattern?: string;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
}

const { oneOf: forms } = buildOpenapiDocument().components.schemas["WorkflowEdit"] as { oneOf: readonly FieldSchema[] };

/** The smallest value that the schema allows. */
function valueOf(schema: FieldSchema): unknown {
  const { type, required = [], properties = {} } = schema;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  if (type === "object") return Object.fromEntries(required.map((key) => [key, valueOf(properties[key] ?? {})]));
  if (type === "array") return [];
  if (type === "integer") return 0;
  return type === "boolean" ? true : schema.pattern === undefined ? "x" : "/x";
}

const rows = forms.map((form) => {
  const edit = valueOf(form) as Record<string, unknown>;
  return [JSON.stringify([edit["op"], edit["list"] ?? ""]), form, edit] as const;
});

describe("edits in the OpenAPI document", () => {
  it.each(rows)(
    "[G680] an edit of the form %s is read, with all its fields or only the required ones, and not without one of them",
    (_, form, edit) => {
      const { properties = {}, required = [] } = form;
      const whole = Object.fromEntries(Object.entries(properties).map(([key, schema]) => [key, valueOf(schema)]));
      const without = required.map((field) => ({ ...edit, [field]: undefined }));

      expect(readEdits([edit])).toEqual([edit]);
      expect(readEdits([whole])).toEqual([whole]);
      expect(without.map((one) => typeof readEdits([one]))).toEqual(required.map(() => "string"));
      expect(readEdits([{ ...edit, more: 1 }])).toContain("more is not a field of this edit");
    },
  );

  it("[G680] the document has a form for every edit that is read", () => {
    const known = /must be one of (.*)$/.exec(String(readEdits([{ op: "none" }])))?.[1]?.split(", ") ?? [];

    expect(new Set(rows.map(([, , edit]) => edit["op"]))).toEqual(new Set(known));
  });
});
