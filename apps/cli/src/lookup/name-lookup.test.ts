import { expect, it } from "vitest";
import { findByNameOrId } from "./name-lookup.ts";

const items = [
  { id: "0199a2c4-aaaa", name: "Welcome Journey" },
  { id: "0199a2c4-bbbb", name: "Welcome Back" },
  { id: "0200ffff-cccc", name: "Map" },
  { id: "0201ffff-dddd", name: "Map of the World" },
];
const find = (nameOrId: string) => findByNameOrId(nameOrId, items, "workflow", "astra workflows list").id;

it("[L14] an item is found by its id, the beginning or end of its id, or its name, if that is unique", () => {
  expect(find("0200")).toBe("0200ffff-cccc");
  expect(find("bbbb")).toBe("0199a2c4-bbbb");
  expect(find("welcome j")).toBe("0199a2c4-aaaa");
  expect(find("MAP")).toBe("0200ffff-cccc");
  expect(() => find("welcome")).toThrow(/matches 2 workflows: 0199a2c4-aaaa \(Welcome Journey\)/);
});

it("[L14] a name that matches nothing ends with exit code 3 and suggests the nearest existing name", () => {
  expect(() => find("Mop")).toThrow(
    expect.objectContaining({ exitCode: 3, message: 'No workflow "Mop" found. Did you mean "Map"?' }),
  );
  expect(() => find("zzzzzz")).toThrow(/^No workflow "zzzzzz" found\.$/);
  expect(() => find("")).toThrow(/^No workflow "" found/);
});
