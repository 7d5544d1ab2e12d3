import { describe, expect, it } from "vitest";
import { stringifyWithoutBindings, withoutBindings } from "./resource-binding-keys.ts";

describe("what a worker sends back", () => {
  it("[D137] loses bindings at any depth, and nothing else", () => {
    const given = { to: "ann", __resourceBindings: { smtp: { value: "x" } }, __resourceBindingErrors: [] };

    expect(stringifyWithoutBindings({ echo: [given], own: 1 })).toBe('{"echo":[{"to":"ann"}],"own":1}');
    expect(withoutBindings({ deep: { given } })).toEqual({ deep: { given: { to: "ann" } } });
  });

  it("[D137] stays as it is where none are in it, also where a text speaks of them", () => {
    const plain = { text: 'say "__resourceBindings" aloud' };

    expect(stringifyWithoutBindings(plain)).toBe(JSON.stringify(plain));
    expect(withoutBindings(plain)).toEqual(plain);
    const none = { a: 1 };
    expect(withoutBindings(none)).toBe(none);
    expect(withoutBindings(undefined)).toBeUndefined();
  });
});
