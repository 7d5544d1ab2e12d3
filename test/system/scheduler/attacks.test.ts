// The quick attacks of `npm run attack`, sent to one scheduler. The slow ones are sent by `npm run ledger`.

import { beforeAll, expect, it } from "vitest";
import { type AttackResult, quickAttackNames, sendAttacks } from "../../../bench/attacks/attacks.ts";

let results: readonly AttackResult[] = [];

beforeAll(async () => {
  results = await sendAttacks({ isQuickOnly: true, onResult: () => undefined });
}, 600_000);

it.each(quickAttackNames)("[O800] a started scheduler withstands %s", (name) => {
  expect(results.find((result) => result.name === name)).toMatchObject({ name, seen: expect.any(String), problem: null });
});
