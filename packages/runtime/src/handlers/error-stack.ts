// The stack of what a handler threw, as far as its author can use it: frames of the package, by their paths inside it.

import path from "node:path";
import { pathToFileURL } from "node:url";

const framesMax = 20;
const causesMax = 3;
const stackCharsMax = 4_096;

/** An error of a handler in another process, which has found the place in the package already. */
export class HostedError extends Error {
  readonly packageStack: string;

  constructor(message: string, packageStack: string) {
    super(message);
    this.packageStack = packageStack;
  }
}

/** Undefined where nothing was thrown in the package's own files, or what was thrown is no error. */
export function readPackageStack(thrown: unknown, packageDir: string | undefined): string | undefined {
  if (thrown instanceof HostedError) return thrown.packageStack.slice(0, stackCharsMax);
  if (packageDir === undefined) return undefined;
  const parts: string[] = [];
  let hasFrames = false;
  for (let error: unknown = thrown, depth = 0; error instanceof Error && depth <= causesMax; error = error.cause, depth++) {
    const frames = readFrames(error, packageDir);
    hasFrames ||= frames.length > 0;
    parts.push([`${depth === 0 ? "" : "caused by "}${String(error.name)}: ${String(error.message)}`, ...frames].join("\n"));
  }
  return hasFrames ? parts.join("\n").slice(0, stackCharsMax) : undefined;
}

function readFrames({ stack }: Error, packageDir: string): string[] {
  if (typeof stack !== "string") return [];
  const places = [`${pathToFileURL(packageDir).href}/`, `${packageDir}${path.sep}`];
  return stack
    .split("\n")
    .filter((line) => /^\s+at /.test(line))
    .flatMap((line) => {
      const place = places.find((one) => line.includes(one));
      return place === undefined ? [] : [line.replace(place, "")];
    })
    .slice(0, framesMax);
}
