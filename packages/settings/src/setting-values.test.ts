import { describe, expect, it } from "vitest";
import { firstSecretLine, readSecretArgument } from "./setting-values.ts";

describe("the worker's token file", () => {
  it("[W64] the worker's token file holds the secret to send in its first line that is not empty", () => {
    expect(firstSecretLine("\n  new \r\nold\n")).toBe("new");
    expect(firstSecretLine(" \n")).toBe("");
  });
});

describe("a secret on the command line", () => {
  it("[W64] a secret on the command line is given as a file, stdin or the published token, never as the secret itself", () => {
    const read = (argument: string) =>
      readSecretArgument(argument, {
        publicToken: "dev-token",
        readFile: (path) => `from ${path}\nolder`,
        readInput: () => "from stdin\n",
      });

    expect([read("@a"), read("-"), read("dev-token"), read("hunter2")]).toEqual(["from a", "from stdin", "dev-token", null]);
  });
});
