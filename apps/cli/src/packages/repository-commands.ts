// `astra packages list` and `astra packages keys`: what the scheduler has published, who holds it, and whose signatures count.

import type { PackageHolder, PackageKey, PackageSummary, PackageVersion } from "@astraflow/protocol";
import { type CommandContext, printItem, printPage, type TableColumn, type TextInput } from "../api/command-context.ts";
import { readTextFile } from "../api/input-file.ts";
import { findByNameOrId } from "../lookup/name-lookup.ts";
import { type PageFlags, readListPage } from "../lookup/pages.ts";
import { type ExitCode, notFoundFailure } from "../output/cli-failure.ts";
import { formatCount, formatInstant } from "../output/format.ts";
import { describeSigner } from "./publish-command.ts";

export async function listPackages(context: CommandContext, input: PageFlags & TextInput<never, "package">): Promise<ExitCode> {
  const { client } = context;
  const { package: packageName } = input;
  if (packageName !== undefined) return listVersions(context, packageName, input);
  const page = await readListPage(input, (request) => client.listPackages(request));
  return printPage<PackageSummary>(context, page, {
    id: ({ name }) => name,
    columns: [
      { header: "PACKAGE", value: ({ name }) => name, isKept: true },
      { header: "DEFAULT", value: ({ defaultVersion, latestVersion }) => defaultVersion ?? latestVersion ?? "", isKept: true },
      { header: "VERSIONS", value: ({ versions }) => versions.join(" "), kind: "text" },
      { header: "ABOUT", value: ({ description }) => description ?? "", kind: "text" },
      { header: "LATEST", value: ({ latestVersion }) => latestVersion ?? "", isWide: true },
    ],
    emptyMessage: "No package is known here. Publish one with: astra packages publish FOLDER",
  });
}

async function listVersions(context: CommandContext, packageName: string, flags: PageFlags): Promise<ExitCode> {
  const { client } = context;
  const page = await readListPage(flags, (request) => client.listPackageVersions({ packageName, ...request }));
  if (page.items.length === 0 && flags.cursor === undefined) await refuseUnknown(packageName, context);
  return printPage<PackageVersion>(context, page, {
    id: ({ version }) => version,
    columns: versionColumns,
    emptyMessage: `${packageName} is known from workers that have it in a folder; no version of it is published here.`,
  });
}

async function refuseUnknown(packageName: string, { client }: CommandContext): Promise<void> {
  const { items } = await client.listPackages({ limit: 200 });
  if (items.every(({ name }) => name !== packageName)) throw notFoundFailure("package", packageName, null, "astra packages list");
}

const versionColumns: readonly TableColumn<PackageVersion>[] = [
  { header: "VERSION", value: ({ version }) => version, isKept: true },
  {
    header: "STATUS",
    value: describeStatus,
    isKept: true,
    color: ({ status, missingResources = [] }) =>
      missingResources.length > 0 ? "red" : status === "withdrawn" ? "yellow" : "green",
  },
  { header: "WORKERS", value: describeHolders, kind: "text" },
  { header: "PUBLISHED", value: ({ publishedAt }) => formatInstant(publishedAt), kind: "when" },
  { header: "SIGNATURE", value: describeSigner, kind: "text" },
  { header: "BYTES", value: ({ sizeBytes }) => String(sizeBytes), isWide: true },
  { header: "BY", value: ({ publishedBy }) => publishedBy, isWide: true },
  { header: "SHA256", value: ({ sha256 }) => sha256, isWide: true },
];

function describeStatus({ status, missingResources = [] }: PackageVersion): string {
  return missingResources.length === 0 ? status : `${status}, ${formatCount(missingResources.length, "file")} missing`;
}

/** What is usual, a version that is installed at a worker that is there, is not said of each. */
function describeHolders({ workers, workerCount }: PackageVersion): string {
  const describe = ({ name, connected, status }: PackageHolder): string => {
    const unusual = [...(status === "installed" ? [] : [status]), ...(connected ? [] : ["away"])];
    return unusual.length === 0 ? name : `${name} (${unusual.join(", ")})`;
  };
  const more = workerCount > workers.length ? [`and ${workerCount - workers.length} more`] : [];
  return workerCount === 0 ? "none" : [...workers.map(describe), ...more].join(", ");
}

type AddKeyInput = TextInput<"file" | "name"> & { readonly package: readonly string[] };

export async function addPackageKey(context: CommandContext, input: AddKeyInput): Promise<ExitCode> {
  const { file, name, package: packages } = input;
  const publicKey = readTextFile(file);
  const key = await context.client.addPackageKey({
    body: { name, publicKey, ...(packages.length > 0 && { packages: [...packages] }) },
  });
  return printItem(context, key, `${key.keyId} is trusted for ${describeScope(key)}`, "next: astra packages publish ARCHIVE");
}

const describeScope = ({ packages }: Pick<PackageKey, "packages">): string => packages?.join(", ") ?? "every package";

export async function listPackageKeys(context: CommandContext, { limit }: { readonly limit: number }): Promise<ExitCode> {
  const page = await context.client.listPackageKeys();
  return printPage<PackageKey>(
    context,
    { ...page, items: page.items.slice(0, limit) },
    {
      id: ({ keyId }) => keyId,
      columns: [
        { header: "KEY", value: ({ keyId }) => keyId, isKept: true, kind: "id" },
        { header: "NAME", value: ({ name }) => name, isKept: true, kind: "text" },
        { header: "PACKAGES", value: describeScope, kind: "text" },
        { header: "ADDED", value: ({ createdAt }) => formatInstant(createdAt), kind: "when" },
      ],
      emptyMessage:
        "No key is trusted, so nothing signed can be published. Add one with: astra packages keys add FILE --name NAME",
    },
  );
}

export async function removePackageKey(context: CommandContext, input: TextInput<"keyId">): Promise<ExitCode> {
  const { items } = await context.client.listPackageKeys();
  const named = items.map(({ keyId, name }) => ({ id: keyId, name }));
  const { id: keyId, name } = findByNameOrId(input.keyId, named, "key", "astra packages keys list");
  await context.confirm(`trust the key ${keyId} (${name}) no longer; what it signed stays installed`);
  await context.client.deletePackageKey({ keyId });
  return printItem(context, { keyId, removed: true }, `${keyId} removed`);
}
