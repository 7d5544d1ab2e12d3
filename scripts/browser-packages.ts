// The package `browser` under both of its names: its own, and `crawlerx_playwright`, which workflows of the specification ask for.
// `node scripts/browser-packages.ts [folder]` writes the two archives, ready to be signed and published.

import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { buildPackageArchive, manifestFileName, readPackageFolder } from "@astraflow/archive";
import { repositoryRoot } from "./repository-files.ts";

const source = join(repositoryRoot, "examples/packages/browser/1.0.0");

export const browserPackageNames = [
  { name: "browser", version: "1.0.0" },
  { name: "crawlerx_playwright", version: "2025.10.0" },
] as const;

/** The same files under one of the names. */
export async function readBrowserPackage(identity: (typeof browserPackageNames)[number]) {
  const { files } = await readPackageFolder(source);
  return files.map((file) => {
    if (file.name !== manifestFileName) return file;
    const manifest = JSON.parse(Buffer.from(file.content).toString("utf8")) as object;
    return { ...file, content: Buffer.from(`${JSON.stringify({ ...manifest, ...identity }, null, 2)}\n`) };
  });
}

async function main(folder = join(repositoryRoot, "dist", "packages")): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const identity of browserPackageNames) {
    const { archive } = buildPackageArchive(await readBrowserPackage(identity));
    const file = resolve(folder, `${identity.name}-${identity.version}.cwx`);
    writeFileSync(file, archive);
    console.log(file);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main(process.argv[2]);
