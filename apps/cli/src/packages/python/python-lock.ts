// requirements.txt of a package, written by `astra packages build` where it does not pin what the manifest depends on. One that does stays as
// it is, so that the same folder gives the same archive tomorrow too.

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import {
  findDependencyProblem,
  findLockProblems,
  formatRequirementsLock,
  lockFileName,
  normaliseName,
  type PinnedRequirement,
} from "@astraflow/archive";
import { Fault, isRecord, readManifest } from "@astraflow/protocol";
import { CliFailure, errorMessage, exitCodes } from "../../output/cli-failure.ts";
import { checkBuildPython, type PipResolution, type PythonTool, resolveDependencies } from "./pip-resolution.ts";
import { readFolderDigests, readPageDigests } from "./wheel-digests.ts";

export interface LockRequest extends PythonTool {
  readonly folder: string;
  readonly manifestJson: unknown;
  /** Writes it anew although it fits. */
  readonly isRenewed: boolean;
  /** Told what is worth knowing. */
  readonly log: (line: string) => void;
}

export interface WrittenLock {
  readonly text: string;
  readonly count: number;
}

/** The new lock, which the caller writes; null: the one that is there fits, or none is needed. */
export async function renewPythonLock(request: LockRequest): Promise<WrittenLock | null> {
  const { folder, manifestJson, isRenewed } = request;
  const manifest = readManifest(isRecord(manifestJson) ? manifestJson : {});
  // What is wrong with a manifest is reported with its other problems, by the build.
  if (manifest instanceof Fault || manifest.python === undefined) return null;
  const dependencies = manifest.python.dependencies ?? [];
  if (dependencies.length === 0 || dependencies.some((one) => findDependencyProblem(one) !== null)) return null;
  const file = path.join(folder, lockFileName);
  const isFitting = existsSync(file) && findLockProblems(readFileSync(file, "utf8"), dependencies).length === 0;
  if (isFitting && !isRenewed) return null;
  await checkBuildPython(request, manifest.python.requires);
  const resolution = await resolveDependencies(request, dependencies);
  const text = formatRequirementsLock(await pinAll(resolution, request));
  const [problem] = findLockProblems(text, dependencies);
  if (problem !== undefined)
    throw new CliFailure(exitCodes.usage, {
      error: problem.code,
      message: `${problem.message}; pip left it out for ${request.command}, by its marker or its extra.`,
    });
  return { text, count: resolution.wheels.length };
}

function pinAll({ wheels, pages }: PipResolution, request: LockRequest): Promise<PinnedRequirement[]> {
  return Promise.all(
    wheels.map(async ({ name, version, sha256 }) => {
      const others = await findOtherDigests({ name, version }, pages, request);
      return { name, version, sha256: [sha256, ...others] };
    }),
  );
}

async function findOtherDigests(
  wheel: Pick<PinnedRequirement, "name" | "version">,
  pages: readonly string[],
  { wheels: folder, signal, log }: LockRequest,
): Promise<string[]> {
  if (folder !== undefined) return readFolderDigests(folder, wheel);
  const own = pages.filter(
    (page) => normaliseName(new URL(page).pathname.split("/").findLast((part) => part !== "") ?? "") === wheel.name,
  );
  const found = await Promise.all(
    own.map(async (page) => {
      try {
        return await readPageDigests(page, wheel, signal);
      } catch (thrown) {
        if (signal.aborted) throw thrown;
        // Such as an index that wants a password, which pip knows and does not tell.
        log(`${page} cannot be read (${errorMessage(thrown)}): only the wheel of ${wheel.name} for this system is pinned`);
        return [];
      }
    }),
  );
  return found.flat();
}
