// The files of a package's folder that belong into its archive. What tools leave behind and what begins with a dot (keys, settings of
// editors) does not; links may not lead out.

import { readdir, readFile, realpath, stat } from "node:fs/promises";
import path from "node:path";
import { fault } from "@astraflow/protocol";
import type { ArchiveFile } from "../zip/write-zip.ts";

const ignoredNames = new Set(["__pycache__", "node_modules", "venv", "Thumbs.db"]);
const ignoredFiles = /\.(pyc|pyo|cwx|cwx\.sig)$|~$/;

export interface PackageFolder {
  readonly files: readonly ArchiveFile[];
  /** Paths that were left out. */
  readonly ignored: readonly string[];
}

export interface PackageFolderOptions {
  /** Packs node_modules too, for packages that carry their dependencies with them. */
  readonly includeNodeModules?: boolean;
}

/** Throws E.PKG.INVALID at a link that leads out of the folder, to a folder or to nothing, and at anything that is not a file. */
export async function readPackageFolder(folder: string, options: PackageFolderOptions = {}): Promise<PackageFolder> {
  const root = await realpath(folder);
  const files: ArchiveFile[] = [];
  const ignored: string[] = [];
  const visit = async (relative: string): Promise<void> => {
    const entries = await readdir(path.join(root, relative), { withFileTypes: true });
    for (const entry of entries.sort((left, right) => (left.name < right.name ? -1 : 1))) {
      const name = relative === "" ? entry.name : `${relative}/${entry.name}`;
      if (isIgnored(entry.name, options)) ignored.push(name);
      else if (entry.isDirectory()) await visit(name);
      else files.push({ name, content: await readFile(await resolveFile(root, name, entry.isSymbolicLink())) });
    }
  };
  await visit("");
  return { files, ignored };
}

function isIgnored(name: string, { includeNodeModules = false }: PackageFolderOptions): boolean {
  if (name === "node_modules" && includeNodeModules) return false;
  return name.startsWith(".") || ignoredNames.has(name) || ignoredFiles.test(name);
}

/** A link to a file inside the folder stands for its content. */
async function resolveFile(root: string, name: string, isLink: boolean): Promise<string> {
  const file = path.join(root, name);
  const target = isLink ? await resolveLink(file) : file;
  if (target === null) throw fault("E.PKG.INVALID", `"${name}" is a link to nothing`, { entry: name });
  if (!target.startsWith(`${root}${path.sep}`))
    throw fault("E.PKG.INVALID", `"${name}" is a link that leads out of the package`, { entry: name });
  if (!(await stat(target)).isFile())
    throw fault("E.PKG.INVALID", `"${name}" is neither a regular file nor a folder, or a link to a folder`, { entry: name });
  return target;
}

async function resolveLink(file: string): Promise<string | null> {
  try {
    return await realpath(file);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw thrown;
  }
}
