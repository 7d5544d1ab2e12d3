// The folders that the worker's operator opens to tasks, and the way from a path in a workflow to a file in one of them. No path leads out:
// neither by `..` nor by a symbolic link, which is refused wherever it leads.

import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, open, realpath } from "node:fs/promises";
import path from "node:path";
import { failure } from "./failure.ts";

const rootsVariable = "FILES_PACKAGE_ROOTS";

export interface Root {
  readonly name: string;
  readonly folder: string;
  readonly isWritable: boolean;
}

/** `inbox=/srv/inbox,reports=/srv/reports:rw`: by name, read-only unless they end with :rw. */
function readRoots(): Map<string, Omit<Root, "name">> {
  const entries = (process.env[rootsVariable] ?? "").split(",").filter((text) => text.trim() !== "");
  return new Map(
    entries.map((entry) => {
      const [, name, folder, access] = /^\s*([\w.-]+)=(\/.*?)(:rw)?\s*$/.exec(entry) ?? [];
      if (name === undefined || folder === undefined)
        throw failure(
          "E.RUNNER.REFUSED",
          `the worker's ${rootsVariable} has ${entry}; each entry is name=/folder or name=/folder:rw`,
        );
      return [name, { folder, isWritable: access !== undefined }];
    }),
  );
}

/** The folder of this name. Its own path may hold links: the operator wrote it. */
export async function findRoot(name: string, wanted: "read" | "write"): Promise<Root> {
  const roots = readRoots();
  const found = roots.get(name);
  if (found === undefined) {
    const known = roots.size === 0 ? "it has none" : `it has ${[...roots.keys()].join(", ")}`;
    throw failure(
      "E.RUNNER.REFUSED",
      `this worker has no root ${JSON.stringify(name)} for files; ${known} (${rootsVariable} lists them)`,
    );
  }
  if (wanted === "write" && !found.isWritable)
    throw failure(
      "E.RUNNER.REFUSED",
      `root ${name} of this worker is read-only; ${rootsVariable} lists those with :rw that may be written`,
    );
  return { name, isWritable: found.isWritable, folder: await realpath(found.folder) };
}

/** The parts of a relative path with slashes; refuses whatever could lead elsewhere. */
export function splitPath(text: string): string[] {
  const parts = text.split("/");
  const isPlain = parts.every((part) => part !== "" && part !== "." && part !== ".." && !/[\0\\]/.test(part));
  if (isPlain) return parts;
  throw failure(
    "E.PARAMS.INVALID",
    `${JSON.stringify(text.slice(0, 200))} is no path inside a root; write it as folder/file, without . and ..`,
  );
}

export const isMissing = (problem: unknown): boolean => (problem as NodeJS.ErrnoException).code === "ENOENT";

async function readStats(file: string): Promise<Stats | undefined> {
  try {
    return await lstat(file);
  } catch (problem) {
    if (isMissing(problem)) return undefined;
    throw problem;
  }
}

/** Where a path of a root lies. Every folder on the way is a real one; with `create` those that are missing are made. */
export async function locate(root: Root, text: string, { create = false } = {}): Promise<string> {
  const parts = splitPath(text);
  let at = root.folder;
  for (const [index, part] of parts.entries()) {
    at = path.join(at, part);
    const stats = await readStats(at);
    if (stats?.isSymbolicLink() === true)
      throw failure(
        "E.RUNNER.REFUSED",
        `${text} in root ${root.name} leads through a symbolic link, ${parts.slice(0, index + 1).join("/")}`,
      );
    const isLast = index === parts.length - 1;
    if (isLast) return at;
    if (stats === undefined && create) await mkdir(at);
    else if (stats === undefined) throw notThere(root, text);
    else if (!stats.isDirectory())
      throw failure(
        "E.RUNNER.REFUSED",
        `${text} in root ${root.name} leads through a file, ${parts.slice(0, index + 1).join("/")}`,
      );
  }
  return at;
}

export const notThere = (root: Root, text: string): Error =>
  failure("E.RESOURCE.MISSING", `root ${root.name} has no file ${text}`);

/** A regular file, opened for reading, and how large it is. */
export async function openFile(
  file: string,
  shown: string,
): Promise<{ readonly handle: FileHandle; readonly sizeBytes: number }> {
  // Not through a link, even where one has been put there since; and a pipe that nobody writes must not be waited for.
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((problem: unknown) => {
    if (isMissing(problem)) throw failure("E.RESOURCE.MISSING", `there is no file ${shown}`);
    throw problem;
  });
  const stats = await handle.stat();
  if (stats.isFile()) return { handle, sizeBytes: stats.size };
  await handle.close();
  throw failure("E.RUNNER.REFUSED", `${shown} is not a regular file`);
}
