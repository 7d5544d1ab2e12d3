import { expect, it } from "vitest";
import { toPublicFault } from "./public-fault.ts";

it("[O115] a caller is told that the disk of the store is full, and nothing else of what the store said", () => {
  const secret = "turn 10 of /var/lib/astra was not written";

  const full = toPublicFault({ code: "E.STORE.BUSY", message: secret, details: { isDiskFull: true } });
  const busy = toPublicFault({ code: "E.STORE.BUSY", message: secret, details: { turn: 10 } });

  expect(full).toEqual({ code: "E.STORE.BUSY", message: expect.stringContaining("The disk of the scheduler's store is full") });
  expect(busy.message).not.toMatch(/disk|astra/);
});
