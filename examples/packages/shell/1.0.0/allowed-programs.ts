// What the worker's operator allows: which programs, and which variables of the environment. Without a list nothing is started.

import path from "node:path";
import { failure } from "./failure.ts";

const programsVariable = "SHELL_PACKAGE_PROGRAMS";
const namesVariable = "SHELL_PACKAGE_ENV";

const readList = (variable: string): string[] =>
  (process.env[variable] ?? "")
    .split(",")
    .map((text) => text.trim())
    .filter((text) => text !== "");

/** By the name that workflows use: `/usr/bin/jq` is jq, `convert=/opt/im/magick` is convert. */
function readPrograms(): Map<string, string> {
  return new Map(
    readList(programsVariable).map((entry) => {
      const at = entry.indexOf("=");
      const file = entry.slice(at + 1);
      if (!path.isAbsolute(file))
        throw failure(
          "E.RUNNER.REFUSED",
          `the worker's ${programsVariable} has ${entry}; each entry is an absolute path, or name=path`,
        );
      return [at === -1 ? path.basename(file) : entry.slice(0, at), file];
    }),
  );
}

/** Where the program is; a name that is not on the list is refused, whatever file it may be. */
export function findProgram(name: string): string {
  const programs = readPrograms();
  const file = programs.get(name);
  if (file !== undefined) return file;
  const allowed = programs.size === 0 ? "it allows none" : `it allows ${[...programs.keys()].join(", ")}`;
  throw failure(
    "E.RUNNER.REFUSED",
    `this worker does not allow the program ${JSON.stringify(name.slice(0, 200))}; ${allowed} (${programsVariable} lists them)`,
  );
}

/** What a program sees: a plain PATH, the variables that the operator passes on, and over them those that the task sets. */
export function buildEnvironment(wanted: Readonly<Record<string, string>>): Record<string, string> {
  const names = readList(namesVariable);
  const refused = Object.keys(wanted).find((name) => !names.includes(name));
  if (refused !== undefined) {
    const allowed = names.length === 0 ? "it allows none" : `it allows ${names.join(", ")}`;
    throw failure(
      "E.RUNNER.REFUSED",
      `this worker does not let tasks set the variable ${refused}; ${allowed} (${namesVariable} lists them)`,
    );
  }
  const passedOn = names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]));
  return { PATH: "/usr/local/bin:/usr/bin:/bin", LANG: "C.UTF-8", ...Object.fromEntries(passedOn), ...wanted };
}
