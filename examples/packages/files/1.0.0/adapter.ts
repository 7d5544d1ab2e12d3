// The nodes of the package. A file is a path in a root of the worker, or one that is stored with the scheduler, which every worker can fetch.

import { randomUUID } from "node:crypto";
import { lstat, mkdir, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import type { HandlerContext } from "@astraflow/sdk";
import { failure } from "./failure.ts";
import { hashFile, readBytes, readPieces, writeWhole } from "./file-content.ts";
import { listFiles } from "./listing.ts";
import { findRoot, isMissing, locate } from "./roots.ts";
import { entriesMax, readZip, writeZip, type ZipFile } from "./zip.ts";

interface FileParams {
  readonly root?: string;
  readonly path?: string;
  /** A stored file, as `files.upload` and other packages return it. */
  readonly file?: { readonly resourceId?: string; readonly filename?: string } | null;
  readonly maxBytes?: number;
  readonly as?: "text" | "json" | "base64";
  readonly overwrite?: boolean;
  readonly pattern?: string;
  readonly targetRoot?: string;
  readonly target?: string;
}

const mebibyte = 1024 * 1024;
const bytesMaxDefault = 64 * mebibyte;
const paramsOf = (ctx: HandlerContext) => ctx.params as unknown as FileParams;

export async function read(ctx: HandlerContext) {
  const { as = "text", maxBytes = mebibyte } = paramsOf(ctx);
  const { file, shown } = await findSource(ctx);
  const bytes = await readBytes(file, shown, maxBytes, ctx.signal);
  return { content: decode(bytes, as, shown), sizeBytes: bytes.length };
}

function decode(bytes: Buffer, as: "text" | "json" | "base64", shown: string): unknown {
  if (as === "base64") return bytes.toString("base64");
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return as === "json" ? (JSON.parse(text) as unknown) : text;
  } catch (cause) {
    const wanted = as === "json" ? "JSON" : "UTF-8 text";
    throw failure("E.RUNNER.REFUSED", `${shown} is not ${wanted}: ${(cause as Error).message}; base64 reads any bytes`, cause);
  }
}

/** Into a root; without one the file is stored with the scheduler. */
export async function write(ctx: HandlerContext) {
  const { content, as = "text" } = ctx.params as { content?: unknown; as?: string };
  return place(ctx, encode(content, as));
}

function encode(content: unknown, as: string): Buffer {
  if (as === "json") return Buffer.from(`${JSON.stringify(content ?? null, null, 2)}\n`);
  if (typeof content !== "string") throw failure("E.PARAMS.INVALID", `content must be a text; as json any value is written`);
  return Buffer.from(content, as === "base64" ? "base64" : "utf8");
}

export async function list(ctx: HandlerContext) {
  const { root: name = "", pattern = "**/*" } = paramsOf(ctx);
  const limit = (ctx.params["limit"] as number | undefined) ?? 1_000;
  const root = await findRoot(name, "read");
  const files: { path: string; sizeBytes: number; modifiedAt: string }[] = [];
  for await (const found of listFiles(root, pattern, ctx.signal)) {
    if (files.length === limit) return { files, count: files.length, isTruncated: true };
    const { size, mtime } = await stat(path.join(root.folder, found));
    files.push({ path: found, sizeBytes: size, modifiedAt: mtime.toISOString() });
  }
  return { files, count: files.length, isTruncated: false };
}

export async function hash(ctx: HandlerContext) {
  const { maxBytes = 16 * 1024 * mebibyte } = paramsOf(ctx);
  const algorithm = (ctx.params["algorithm"] as string | undefined) ?? "sha256";
  const { file, shown } = await findSource(ctx);
  return hashFile(file, shown, algorithm, maxBytes, ctx.signal);
}

/** The files of a root that match, as an archive: in a root, or stored with the scheduler. */
export async function zip(ctx: HandlerContext) {
  const { root: name = "", pattern = "**/*", maxBytes = bytesMaxDefault, targetRoot = "", target = "" } = paramsOf(ctx);
  const root = await findRoot(name, "read");
  let count = 0;
  const readFiles = async function* (): AsyncGenerator<ZipFile> {
    let left = maxBytes;
    for await (const found of listFiles(root, pattern, ctx.signal)) {
      if (++count > entriesMax)
        throw failure("E.RUNNER.REFUSED", `${pattern} matches more than ${entriesMax} files of root ${name}`);
      const content = await readBytes(await locate(root, found), `${found} with the files before it`, left, ctx.signal);
      left -= content.length;
      ctx.feedback.send({ stage: "packing", message: found, metrics: { files: count } });
      yield { name: found, content };
    }
  };
  const archive = await writeZip(readFiles());
  if (count === 0) throw failure("E.RESOURCE.MISSING", `root ${name} has no files that match ${pattern}`);
  const { outputs, artifacts } = await place(ctx, archive, { root: targetRoot, path: target });
  return { outputs: { ...outputs, count }, artifacts };
}

/** Into a new folder of a root, which is there when all files are, or not at all. */
export async function unzip(ctx: HandlerContext) {
  const { maxBytes = bytesMaxDefault, targetRoot = "", target = "" } = paramsOf(ctx);
  const { file, shown } = await findSource(ctx);
  const root = await findRoot(targetRoot, "write");
  const folder = await locate(root, target, { create: true });
  const isTaken = await lstat(folder).then(
    () => true,
    (problem: unknown) => {
      if (isMissing(problem)) return false;
      throw problem;
    },
  );
  if (isTaken) throw failure("E.RUNNER.REFUSED", `${target} in root ${targetRoot} is there already; unpack into a new folder`);
  const archive = await readBytes(file, shown, maxBytes, ctx.signal);
  const draft = path.join(path.dirname(folder), `.${randomUUID()}.part`);
  const files: string[] = [];
  try {
    await mkdir(draft);
    for await (const { name, content } of readZip(archive, maxBytes)) {
      ctx.signal.throwIfAborted();
      const to = path.join(draft, name);
      await mkdir(path.dirname(to), { recursive: true });
      await writeFile(to, content, { flag: "wx" });
      files.push(name);
      ctx.feedback.send({ stage: "unpacking", message: name, metrics: { files: files.length } });
    }
    await rename(draft, folder);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return { files, count: files.length };
}

/** Stores a file of a root with the scheduler. */
export async function upload(ctx: HandlerContext) {
  const { maxBytes = 1024 * mebibyte } = paramsOf(ctx);
  const { file, shown } = await findSource(ctx);
  // A copy: what the task was allowed to read is what is stored, whatever becomes of the file meanwhile.
  const copy = path.join(ctx.workDir, "upload");
  const { digest, sizeBytes } = await writeWhole(copy, shown, readPieces(file, shown, maxBytes, ctx.signal), { overwrite: true });
  return store(ctx, copy, path.basename(shown), { sha256: digest, sizeBytes });
}

/** Fetches a stored file into a root. */
export async function download(ctx: HandlerContext) {
  const { root: name = "", path: wanted = "", maxBytes = 1024 * mebibyte, overwrite = false } = paramsOf(ctx);
  const root = await findRoot(name, "write");
  const { file, shown } = await fetchStored(ctx);
  const to = await locate(root, wanted, { create: true });
  const { digest, sizeBytes } = await writeWhole(to, wanted, readPieces(file, shown, maxBytes, ctx.signal), { overwrite });
  return { path: wanted, sha256: digest, sizeBytes };
}

interface Source {
  readonly file: string;
  /** For messages. */
  readonly shown: string;
}

async function findSource(ctx: HandlerContext): Promise<Source> {
  const { root: name = "", path: wanted = "", file } = paramsOf(ctx);
  if (file !== undefined && file !== null) return fetchStored(ctx);
  const root = await findRoot(name, "read");
  return { file: await locate(root, wanted), shown: wanted };
}

async function fetchStored(ctx: HandlerContext): Promise<Source> {
  const { resourceId, filename } = paramsOf(ctx).file ?? {};
  if (resourceId === undefined)
    throw failure("E.PARAMS.INVALID", "file must be a stored file: connect the port file of a node that stores one");
  const { path: file } = await ctx.resources.download(resourceId);
  if (file === undefined) throw failure("E.RESOURCE.MISSING", `file ${resourceId} is not at this worker`);
  return { file, shown: filename ?? resourceId };
}

async function place(ctx: HandlerContext, content: Buffer, where: Pick<FileParams, "root" | "path"> = paramsOf(ctx)) {
  const { root: name = "", path: wanted = "" } = where;
  const { overwrite = false } = paramsOf(ctx);
  if (name !== "") {
    const file = await locate(await findRoot(name, "write"), wanted, { create: true });
    const { digest, sizeBytes } = await writeWhole(file, wanted, [content], { overwrite });
    return { outputs: { path: wanted, sha256: digest, sizeBytes, file: null }, artifacts: [] };
  }
  const draft = path.join(ctx.workDir, "content");
  const { digest, sizeBytes } = await writeWhole(draft, wanted, [content], { overwrite: true });
  const { outputs, artifacts } = await store(ctx, draft, path.basename(wanted), { sha256: digest, sizeBytes });
  return { outputs: { path: wanted, ...outputs }, artifacts };
}

async function store(ctx: HandlerContext, file: string, filename: string, about: { sha256: string; sizeBytes: number }) {
  const { resources, runId, taskId } = ctx;
  const id = `file ${taskId}`;
  resources.registerFile(id, file, { scope: runId });
  const stored = await resources.upload(id, { filename });
  return { outputs: { ...about, file: stored }, artifacts: [resources.artifact(id)] };
}
