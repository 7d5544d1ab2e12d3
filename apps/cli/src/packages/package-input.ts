// Reading and writing the files of the package commands, and how their problems are reported.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Fault, isRecord, type PackageSignature, readPackageSignature } from "@astraflow/protocol";
import { parseJson } from "../api/input-file.ts";
import { CliFailure, errorMessage, exitCodes, faultFailure, usageFailure } from "../output/cli-failure.ts";

/** The signature beside an archive; null: it is not signed. */
export function readSignatureFile(archive: string): PackageSignature | null {
  const file = `${archive}.sig`;
  if (!existsSync(file)) return null;
  const value = parseJson(readInput(file).toString("utf8"), file);
  const signature = readPackageSignature(isRecord(value) ? value : {});
  if (signature instanceof Fault) throw faultFailure(signature, file);
  return signature;
}

export function readInput(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw usageFailure(`${file} cannot be read (${errorMessage(cause)}).`);
  }
}

export function writeOutput(file: string, content: Uint8Array | string): void {
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

export function refusing<T>(source: string, act: () => T): T {
  try {
    return act();
  } catch (thrown) {
    throw packageFailure(thrown, source);
  }
}

export async function refusingLater<T>(source: string, act: Promise<T>): Promise<T> {
  try {
    return await act;
  } catch (thrown) {
    throw packageFailure(thrown, source);
  }
}
