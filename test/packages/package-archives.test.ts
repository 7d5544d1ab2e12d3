// The example packages as archives: what authors do with theirs, with the commands they use.

import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { repositoryRoot } from "../../scripts/repository-files.ts";
import { exampleFolder, makeFolder } from "./harness/example-package.ts";

const execute = promisify(execFile);
const program = join(repositoryRoot, "apps/cli/bin/astra.mjs");
const astra = async (...args: string[]) => {
  const { stdout, stderr } = await execute(process.execPath, [program, "packages", ...args]);
  return stdout + stderr;
};

it.each(["http", "files", "shell"])(
  "[W1358] the package %s is built, signed and verified by the commands of authors",
  async (name) => {
    const folder = makeFolder();
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    writeFileSync(join(folder, "key.pem"), privateKey.export({ format: "pem", type: "pkcs8" }));
    writeFileSync(join(folder, "key.pub"), publicKey.export({ format: "pem", type: "spki" }));
    const archive = join(folder, "package.cwx");

    await astra("build", exampleFolder(name), "--out", archive);
    await astra("sign", archive, "--key", join(folder, "key.pem"), "--by", "ann@acme.example");
    const verified = await astra("verify", archive, "--key", join(folder, "key.pub"));

    expect(verified).toContain(`${name} 1.0.0`);
  },
);
