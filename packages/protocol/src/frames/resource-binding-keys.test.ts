import { describe, expect, it } from "vitest";
import { stringifyWithoutBindings, withoutBindings } from "./resource-binding-keys.ts";

describe("what a worker sends back", () => {
  it("[D137] resource bindings are removed at any depth from what a worker sends back, and nothing else is", () => {
    const given = { to: "ann", __resourceBindings: { smtp: { value: "x" } }, __resourceBindingErrors: [] };

    expect(stringifyWithoutBindings({ echo: [given], own: 1 })).toBe('{"echo":[{"to":"ann"}],"own":1}');
    expect(withoutBindings({ deep: { given } })).toEqual({ deep: { given: { to: "ann" } } });
  });

  it("[D137] what a worker sends back stays unchanged where it has no resource bindings, even if a text mentions them", () => {
    const plain = { text: 'say "__resourceBindings" aloud' };

    expect(stringifyWithoutBindings(plain)).toBe(JSON.stringify(plain));
    expect(withoutBindings(plain)).toEqual(plain);
    const none = { a: 1 };
    expect(withoutBindings(none)).toBe(none);
    expect(withoutBindings(undefined)).toBeUndefined();
  });
});
