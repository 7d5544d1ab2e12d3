import { expect, it } from "vitest";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { logIn } from "./login-command.ts";

it("[L834] astra login names the scheduler that refused the password", async () => {
  const refusal = new CliFailure(exitCodes.notAllowed, { error: "E.AUTH.INVALID_CREDENTIALS", message: "wrong password" });
  const { context } = createCommandFixture({ login: () => Promise.reject(refusal) });
  const env = { HOME: "/nowhere", ASTRA_PASSWORD: "a long password" };

  await expect(logIn(context, { username: "ada" }, env)).rejects.toMatchObject({
    exitCode: exitCodes.notAllowed,
    message: "http://s: wrong password",
  });
});
