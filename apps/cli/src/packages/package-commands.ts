// `astra packages new|build|sign|verify`: what authors do on their own machine, without a scheduler.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import {
  buildPackageArchive,
  checkContentDigest,
  createMemorySource,
  findSignatureProblem,
  readArchiveFiles,
  readPackageArchive,
  readPackageFolder,
  readPrivateKey,
  readPublicKey,
  sha256Hex,
  signPackage,
} from "@astraflow/archive";
import { Fault, isRecord, readPackageSignature } from "@astraflow/protocol";
import type { CommandContext, Switches, TextInput } from "../api/command-context.ts";
import { parseJson } from "../api/input-file.ts";
import { CliFailure, type ExitCode, errorMessage, exitCodes, faultFailure, usageFailure } from "../output/cli-failure.ts";
import { formatCount } from "../output/format.ts";
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
  terminal.info(`wrote ${formatCount(Object.keys(files).length, "file")}; next: astra packages build ${folder}`);
  return exitCodes.ok;
}

export async function buildPackage(
  { terminal, json }: LocalContext,
  input: TextInput<"folder", "out"> & Switches<"includeNodeModules">,
): Promise<ExitCode> {
  const { folder, includeNodeModules = false } = input;
  const manifestFile = path.join(readable(folder), "manifest.json");
  parseJson(readInput(manifestFile).toString("utf8"), manifestFile);
  const { files, ignored } = await readPackageFolder(folder, { includeNodeModules });
  const { archive, manifest } = refusing(folder, () => buildPackageArchive(files));
  const out = input.out ?? `${manifest.name}-${manifest.version}.cwx`;
  writeOutput(out, archive);
  const { name, version } = manifest;
  const sha256 = sha256Hex(archive);
  terminal.print(
    json ? JSON.stringify({ archive: out, name, version, sha256, bytes: archive.length, files: files.length, ignored }) : out,
  );
  terminal.info(
    `${name} ${version}: ${formatCount(files.length, "file")}, ${formatCount(archive.length, "byte")}, sha256 ${sha256}`,
  );
  if (ignored.length > 0) terminal.info(`left out: ${ignored.join(", ")}`);
  terminal.info(`next: astra packages sign ${out} --key KEY.pem --by NAME`);
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
  const signature = existsSync(`${file}.sig`) ? readSignature(`${file}.sig`) : null;
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

function readSignature(file: string) {
  const value = parseJson(readInput(file).toString("utf8"), file);
  const signature = readPackageSignature(isRecord(value) ? value : {});
  if (signature instanceof Fault) throw faultFailure(signature, file);
  return signature;
}

const refusal = (message: string) => new CliFailure(exitCodes.notAllowed, { error: "E.PKG.PERMISSION", message });

function readable(folder: string): string {
  if (!existsSync(path.join(folder, "manifest.json")))
    throw usageFailure(`${folder} has no manifest.json.`, "astra packages new FOLDER");
  return folder;
}

function readInput(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw usageFailure(`${file} cannot be read (${errorMessage(cause)}).`);
  }
}

function writeOutput(file: string, content: Uint8Array | string): void {
  try {
    writeFileSync(file, content);
  } catch (cause) {
    throw usageFailure(`${file} cannot be written (${errorMessage(cause)}).`);
  }
}

/** All problems of a package, one a line. */
function packageFailure(thrown: unknown, source: string): unknown {
  if (!(thrown instanceof Fault)) return thrown;
  const problems = thrown.details?.["problems"];
  const lines = Array.isArray(problems) ? problems.map(String) : [thrown.message];
  return new CliFailure(exitCodes.usage, {
    error: thrown.code,
    message: `${source}: ${lines.join("\n  ")}`,
    details: thrown.details,
  });
}

function refusing<T>(source: string, act: () => T): T {
  try {
    return act();
  } catch (thrown) {
    throw packageFailure(thrown, source);
  }
}

async function refusingLater<T>(source: string, act: Promise<T>): Promise<T> {
  try {
    return await act;
  } catch (thrown) {
    throw packageFailure(thrown, source);
  }
}
