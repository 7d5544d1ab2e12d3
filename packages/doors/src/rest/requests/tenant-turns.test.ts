import { expect, it } from "vitest";
import { TenantTurns } from "./tenant-turns.ts";

const roomy = { itemsMax: 100, itemsPerTenantMax: 50, bytesMax: 1_000, bytesPerTenantMax: 1_000 };

it("[O610] tenants take turns: a request waits for one request of another tenant at a time, however many that one has sent", () => {
  const turns = new TenantTurns<string>(roomy);
  for (const item of ["a1", "a2", "a3", "a4"]) turns.push("a", item, 1);
  turns.push("b", "b1", 1);
  turns.push("c", "c1", 1);

  const first = turns.shift();
  turns.push("b", "b2", 1);

  expect([first, ...turns.drain()]).toEqual(["a1", "b1", "c1", "a2", "b2", "a3", "a4"]);
});

it("[O610] a tenant whose only request was just taken comes after another one that waits, even if it asks again first", () => {
  const turns = new TenantTurns<string>(roomy);
  turns.push("a", "a1", 1);
  const first = turns.shift();
  turns.push("a", "a2", 1);
  turns.push("b", "b1", 1);

  expect([first, ...turns.drain()]).toEqual(["a1", "b1", "a2"]);
});

it("[O611] the queue of long requests is bounded for each tenant, for all together and by the bytes of their bodies", () => {
  const turns = new TenantTurns<number>({ itemsMax: 3, itemsPerTenantMax: 2, bytesMax: 10, bytesPerTenantMax: 9 });

  expect(turns.push("a", 1, 4)).toBeNull();
  expect(turns.push("a", 2, 6)).toBe("those of tenant a that wait have 4 bytes already");
  expect(turns.push("a", 2, 4)).toBeNull();
  expect(turns.push("a", 3, 0)).toBe("2 of tenant a wait already");
  expect(turns.push("b", 4, 4)).toBe("those that wait have 8 bytes already");
  expect(turns.push("b", 5, 2)).toBeNull();
  expect(turns.push("c", 6, 0)).toBe("3 wait already");
  expect([turns.shift(), turns.size]).toEqual([1, 2]);
  expect(turns.push("c", 7, 4)).toBeNull();
  expect(turns.drain()).toEqual([5, 2, 7]);
  // One is taken whatever its size.
  expect(turns.push("c", 8, 99)).toBeNull();
});
