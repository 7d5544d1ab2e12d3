import { expect, it } from "vitest";
import { createIdGenerator, createRandom, digestText } from "./ids-and-random.ts";

it("[O8] ids are version 7 UUIDs that contain their timestamp", () => {
  const id = createIdGenerator().next(0x0123456789ab);

  expect(id).toMatch(/^01234567-89ab-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

it("[O8] ids sort in the order of their creation: within a millisecond, beyond 4096 of them, and when the clock goes back", () => {
  const ids = createIdGenerator();
  const times = [...Array.from({ length: 10_000 }, () => 5_000), 4_000, 4_999.9, 5_001, 5_010];

  const made = times.map((now) => ids.next(now));

  expect(made).toEqual([...made].sort());
  expect(new Set(made).size).toBe(times.length);
});

it("[O8] random numbers stay below one, and every buffered value is used once", () => {
  const dice = createRandom((into) => into.fill(0xffff_ffff));
  const counting = createRandom((into) => into.forEach((_, at) => (into[at] = at)));

  expect(dice.next()).toBeLessThan(1);
  expect(new Set(Array.from({ length: 1_024 }, () => counting.next())).size).toBe(1_024);
});

it("[O8] digests are 22 URL-safe characters and differ for different texts", () => {
  expect(digestText("a")).toMatch(/^[A-Za-z0-9_-]{22}$/);
  expect(digestText("a")).not.toBe(digestText("b"));
});
