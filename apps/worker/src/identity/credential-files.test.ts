import { describe, expect, it } from "vitest";
import { TokenFile } from "./credential-files.ts";

function open(texts: (string | Error)[], file: string | null = "w.token") {
  const warnings: string[] = [];
  const token = new TokenFile({
    auth: { mode: "token", token: "old" },
    file,
    read() {
      const text = texts.shift() ?? new Error("nothing left");
      if (text instanceof Error) throw text;
      return text;
    },
    warn: (message) => warnings.push(message),
  });
  return { token, warnings };
}

describe("the worker's token file", () => {
  it("[W144] the worker's token file is read again for each handshake, so that its current content is sent", () => {
    const { token } = open(["one\n", "two\none\n"]);

    expect(token.auth).toEqual({ mode: "token", token: "one" });
    expect(token.auth).toEqual({ mode: "token", token: "two" });
  });

  it("[W144] a missing or empty worker token file leaves the last token in use, with one warning until it is good again", () => {
    const { token, warnings } = open([new Error("ENOENT"), "\n", "new", ""]);

    expect([token.auth.token, token.auth.token, token.auth.token, token.auth.token]).toEqual(["old", "old", "new", "new"]);
    expect(warnings).toEqual([
      "the token file w.token cannot be used (ENOENT); the last known token is sent",
      "the token file w.token cannot be used (it is empty); the last known token is sent",
    ]);
  });

  it("[W144] no worker token file is read if the token came from elsewhere", () => {
    expect(open(["other"], null).token.auth).toEqual({ mode: "token", token: "old" });
  });
});
