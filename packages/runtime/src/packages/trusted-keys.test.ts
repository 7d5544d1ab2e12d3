import { Fault } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createSigningKey } from "../testing/package-repository.ts";
import { readTrustedKeys } from "./trusted-keys.ts";

const { publicKey } = createSigningKey();

describe("the file of trusted keys", () => {
  it("[W756] a file of trusted keys is one public key in PEM, or a JSON list of keys with the packages they may sign", () => {
    const list = [{ publicKey, packages: ["acme.*"] }, { publicKey }];

    expect(readTrustedKeys(publicKey)).toEqual([{ publicKey }]);
    expect(readTrustedKeys(JSON.stringify(list))).toEqual(list);
  });

  it.each([
    ["", "cannot be used"],
    ["[]", "JSON list of keys"],
    ["[1]", "place 1"],
    [JSON.stringify([{ publicKey }, { publicKey: "AAAA" }]), "place 2"],
    [JSON.stringify([{ publicKey, packages: "all" }]), "place 1"],
    [JSON.stringify([{ publicKey, pacakges: ["acme.*"] }]), 'the unknown field "pacakges" at place 1; did you mean packages?'],
    [JSON.stringify([{ publicKye: publicKey }]), 'the unknown field "publicKye" at place 1; did you mean publicKey?'],
  ])("[W756] the file %j is refused with the place of its problem", (text, reason) => {
    const refusal = readTrustedKeys(text);

    expect(refusal).toBeInstanceOf(Fault);
    expect((refusal as Fault).message).toContain(reason);
  });
});
