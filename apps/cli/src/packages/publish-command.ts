// `astra packages publish`: sends an archive and the signature beside it to the scheduler, or a folder, which is packed first.

import { openAsBlob, statSync } from "node:fs";
import path from "node:path";
import { readPackageFolder, readPrivateKey, signPackage } from "@astraflow/archive";
import { Fault, type PackageVersion } from "@astraflow/protocol";
import { type CommandContext, printItem, type TextInput } from "../api/command-context.ts";
import { type ExitCode, errorMessage, faultFailure, usageFailure } from "../output/cli-failure.ts";
import { formatCount } from "../output/format.ts";
import { type BuildContext, type BuildInput, packFolder } from "./build-command.ts";
import { readInput, readSignatureFile } from "./package-input.ts";

type PublishContext = CommandContext & { readonly environment: Omit<BuildContext, "terminal" | "json"> };
type PublishInput = Omit<BuildInput, "folder"> & TextInput<"path" | "tenant", "key" | "by">;

export async function publishPackage(context: PublishContext, input: PublishInput): Promise<ExitCode> {
  const isFolder = statSync(input.path, { throwIfNoEntry: false })?.isDirectory() === true;
  if (!isFolder && input.key !== undefined)
    throw usageFailure("--key signs a folder that is published; an archive is signed with: astra packages sign ARCHIVE");
  const body = isFolder ? await packForm(context, input) : await archiveForm(input.path);
  const published = await context.client.publishPackage({ body });
  const { name, version, sha256, sizeBytes } = published;
  const about = `${formatCount(sizeBytes, "byte")}, sha256 ${sha256}, ${describeSigner(published)}`;
  printItem(
    context,
    published,
    `${name} ${version} is published`,
    `${about}; next: astra packages install ${name}@${version} --all`,
  );
  for (const missing of published.missingResources ?? [])
    context.terminal.info(`missing: ${missing}, which the manifest names; put it beside the archive before workers install it`);
  return 0;
}

export const describeSigner = ({ signature }: Pick<PackageVersion, "signature">): string =>
  signature === null ? "not signed" : `signed by ${signature.signedBy}`;

async function archiveForm(file: string): Promise<FormData> {
  const signature = readSignatureFile(file);
  try {
    return createForm(signature, await openAsBlob(file), path.basename(file));
  } catch (cause) {
    throw usageFailure(`${file} cannot be read (${errorMessage(cause)}).`);
  }
}

async function packForm({ terminal, json, environment, now }: PublishContext, input: PublishInput): Promise<FormData> {
  const { path: folder, key: keyFile, by, tenant, includeNodeModules = false } = input;
  if ((keyFile === undefined) !== (by === undefined)) throw usageFailure("--key and --by go together: the key, and who signs.");
  const key = keyFile === undefined ? null : readPrivateKey(readInput(keyFile).toString("utf8"));
  if (key instanceof Fault) throw faultFailure(key, keyFile);
  const { archive, manifest } = await packFolder({ ...environment, terminal, json }, { ...input, folder });
  const name = `${manifest.name}-${manifest.version}.cwx`;
  if (key === null || by === undefined) return createForm(null, new Blob([Uint8Array.from(archive)]), name);
  const { files } = await readPackageFolder(folder, { includeNodeModules });
  const signed = signPackage(files, { tenant, signedAt: new Date(now()).toISOString(), signedBy: by }, key);
  return createForm(signed.signature, new Blob([Uint8Array.from(signed.archive)]), name);
}

function createForm(signature: object | null, archive: Blob, name: string): FormData {
  const form = new FormData();
  // Before the file, so that a scheduler can refuse an archive without reading all of it.
  if (signature !== null) form.set("signature", JSON.stringify(signature));
  form.set("file", archive, name);
  return form;
}
