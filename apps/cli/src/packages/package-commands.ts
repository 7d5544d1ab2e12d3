// `astra packages new|sign|verify`: what authors do on their own machine, without a scheduler.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import {
  checkContentDigest,
  createMemorySource,
  findSignatureProblem,
  readArchiveFiles,
  readPackageArchive,
  readPrivateKey,
  readPublicKey,
  sha256Hex,
  signPackage,
} from "@astraflow/archive";
import { Fault } from "@astraflow/protocol";
import type { CommandContext, TextInput } from "../api/command-context.ts";
import { CliFailure, type ExitCode, exitCodes, faultFailure, usageFailure } from "../output/cli-failure.ts";
import { formatCount } from "../output/format.ts";
import { readInput, readSignatureFile, refusingLater, writeOutput } from "./package-input.ts";
import { createPackageFiles, type PackageRuntime } from "./package-template.ts";

type LocalContext = Pick<CommandContext, "terminal" | "json">;

const packageName = /^[a-z0-9]+([._-][a-z0-9]+)*$/;

export async function createPackage(
  { terminal, json }: LocalContext,
  input: TextInput<"folder", "name"> & { readonly runtime: PackageRuntime },
): Promise<ExitCode> {
  const { folder, runtime } = input;
  const name = input.name ?? path.basename(path.resolve(folder));
  if (!packageName.test(name))
    throw usageFailure(
      `"${name}" is not a name for a package: small letters and digits, with . _ or - between.`,
      "astra packages new tools --name acme.tools",
    );
  if (existsSync(folder)) throw usageFailure(`${folder} exists and is not changed. Name another folder.`);
  const files = createPackageFiles(name, runtime);
  for (const [file, text] of Object.entries(files)) {
    const target = path.join(folder, file);
    mkdirSync(path.dirname(target), { recursive: true });
    writeFileSync(target, text, { flag: "wx" });
  }
  terminal.print(json ? JSON.stringify({ folder, name, runtime, files: Object.keys(files) }) : folder);
  terminal.info(`wrote ${formatCount(Object.keys(files).length, "file")}; next: astra packages dev ${folder}`);
  return exitCodes.ok;
}

export async function signArchiveFile(
  { terminal, json, now }: LocalContext & Pick<CommandContext, "now">,
  { archive: file, key: keyFile, by, tenant }: TextInput<"archive" | "key" | "by" | "tenant">,
): Promise<ExitCode> {
  const key = readPrivateKey(readInput(keyFile).toString("utf8"));
  if (key instanceof Fault) throw faultFailure(key, keyFile);
  const source = createMemorySource(readInput(file));
  const read = await refusingLater(file, readPackageArchive(source));
  const claims = { tenant, signedAt: new Date(now()).toISOString(), signedBy: by };
  const { archive, signature } = signPackage(await readArchiveFiles(source, read), claims, key);
  writeOutput(file, archive);
  writeOutput(`${file}.sig`, `${JSON.stringify(signature, null, 2)}\n`);
  terminal.print(json ? JSON.stringify(signature) : `${file}.sig`);
  terminal.info(`signed ${read.manifest.name} ${read.manifest.version} by key ${signature.keyId} for tenant ${tenant}`);
  return exitCodes.ok;
}

export async function verifyArchiveFile(
  { terminal, json }: LocalContext,
  input: TextInput<"archive" | "tenant", "key">,
): Promise<ExitCode> {
  const { archive: file, tenant } = input;
  const bytes = readInput(file);
  const source = createMemorySource(bytes);
  const read = await refusingLater(file, readPackageArchive(source));
  await refusingLater(file, checkContentDigest(source, read));
  const { name, version } = read.manifest;
  const signature = readSignatureFile(file);
  if (input.key !== undefined) {
    const key = readPublicKey(readInput(input.key).toString("utf8"));
    if (key instanceof Fault) throw faultFailure(key, input.key);
    if (signature === null) throw refusal(`${file} is not signed: there is no ${file}.sig.`);
    const problem = findSignatureProblem(signature, { name, version, tenant, sha256: sha256Hex(bytes), bytes: bytes.length }, [
      key,
    ]);
    if (problem !== null) throw refusal(`${file}: ${problem.message}`);
  }
  const isVerified = input.key !== undefined;
  terminal.print(
    json
      ? JSON.stringify({ name, version, sha256: sha256Hex(bytes), keyId: signature?.keyId ?? null, isVerified })
      : `${name} ${version}`,
  );
  terminal.info(
    isVerified
      ? `signed by ${signature?.signedBy} at ${signature?.signedAt}`
      : "the archive is whole; give --key to check who signed it",
  );
  return exitCodes.ok;
}

const refusal = (message: string) => new CliFailure(exitCodes.notAllowed, { error: "E.PKG.PERMISSION", message });
