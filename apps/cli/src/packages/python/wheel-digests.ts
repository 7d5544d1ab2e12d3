// The digests of all wheels of one version, from the page of an index or from a folder: a lock that is written on one machine has to fit the
// workers too, whatever system and Python they have.

import { createHash } from "node:crypto";
import { createReadStream, readdirSync } from "node:fs";
import path from "node:path";
import { comparePythonVersions, normaliseName, type PinnedRequirement, readPythonVersion } from "@astraflow/archive";
import { errorMessage } from "../../output/cli-failure.ts";

type WheelVersion = Pick<PinnedRequirement, "name" | "version">;

const pageBytesMax = 64 * 1024 * 1024;
const pageWaitMs = 30_000;

/** Throws where the page cannot be read. */
export async function readPageDigests(pageUrl: string, wheel: WheelVersion, signal: AbortSignal): Promise<string[]> {
  const signals = AbortSignal.any([signal, AbortSignal.timeout(pageWaitMs)]);
  const response = await fetch(pageUrl, { headers: { accept: "text/html" }, signal: signals });
  const text = response.ok ? await response.text() : "";
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  if (text.length > pageBytesMax) throw new Error("the page is too long");
  return [...text.matchAll(/<a\s[^>]*href\s*=\s*["']([^"']+)["']/gi)].flatMap(([, link = ""]) => {
    const [file = "", fragment = ""] = link.replaceAll("&amp;", "&").split("#");
    const digest = /(?:^|&)sha256=([0-9a-f]{64})/i.exec(fragment)?.[1];
    return digest !== undefined && isWheelOf(decodeFileName(file), wheel) ? [digest.toLowerCase()] : [];
  });
}

export async function readFolderDigests(folder: string, wheel: WheelVersion): Promise<string[]> {
  const files = readdirSync(folder).filter((file) => isWheelOf(file, wheel));
  return Promise.all(
    files.map(async (file) => {
      const hash = createHash("sha256");
      for await (const chunk of createReadStream(path.join(folder, file))) hash.update(chunk as Buffer);
      return hash.digest("hex");
    }),
  );
}

function decodeFileName(link: string): string {
  const name = link.replace(/\?.*$/, "").split("/").at(-1) ?? "";
  try {
    return decodeURIComponent(name);
  } catch (thrown) {
    throw new Error(`the page has the link ${name.slice(0, 100)}: ${errorMessage(thrown)}`);
  }
}

/** `name-version(-build)-python-abi-platform.whl` */
function isWheelOf(file: string, { name, version }: WheelVersion): boolean {
  if (!file.endsWith(".whl")) return false;
  const [fileName = "", fileVersion = ""] = file.split("-");
  if (normaliseName(fileName) !== name) return false;
  const [left, right] = [readPythonVersion(fileVersion), readPythonVersion(version)];
  return left !== null && right !== null ? comparePythonVersions(left, right) === 0 : fileVersion === version;
}
