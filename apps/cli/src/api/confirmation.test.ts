import { describe, expect, it } from "vitest";
import { createConfirmation } from "./confirmation.ts";

describe("confirmation", () => {
  it.each(["y", "Y", "yes", "YES", " yes \n"])("[L26] the answer %j confirms a command", async (answer) => {
    const confirm = createConfirmation({ isConfirmed: false, promptUser: async () => answer });

    await expect(confirm("cancel run 7")).resolves.toBeUndefined();
  });

  it.each(["", "n", "no", "yesterday", "yep", "not yet", "maybe y"])(
    "[L26] the answer %j does not confirm a command",
    async (answer) => {
      const confirm = createConfirmation({ isConfirmed: false, promptUser: async () => answer });

      await expect(confirm("cancel run 7")).rejects.toMatchObject({ body: { error: "E.DECLINED" } });
    },
  );
});
