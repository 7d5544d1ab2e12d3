// The models for Python, read by Python itself: the package's own tests, on the samples that the protocol's readers are tested with.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { repositoryRoot } from "../harness/processes.ts";

const modelsFolder = join(repositoryRoot, "packages/models-python");
/** Without leaving compiled files in the sources. */
const runPython = (...args: string[]) => spawnSync("python3", ["-B", ...args], { cwd: modelsFolder, encoding: "utf8" });

/** Null: there is one that can run the models. */
function missingPython(): string | null {
  const { error, stdout } = runPython("-c", "import sys; print(sys.version_info >= (3, 11))");
  if (error !== undefined) return "python3 is not installed";
  return stdout.trim() === "True" ? null : "python3 is older than 3.11";
}

describe("the models for Python", () => {
  it("[N28] the Python models read every sample of every dialect, workflows and runs, and name the field of a wrong value", (ctx) => {
    const why = missingPython();
    if (why !== null) return ctx.skip(why);

    const { status, stderr } = runPython("-m", "unittest", "discover", "-s", "tests", "-t", ".");

    expect(stderr).toMatch(/Ran [1-9]\d* tests[\s\S]*\nOK\n$/);
    expect(status).toBe(0);
  });

  it("[N29] the Python models need only the standard library and declare the type of each field for a type checker", (ctx) => {
    const why = missingPython();
    if (why !== null) return ctx.skip(why);

    // -S and -I: no site-packages, no paths but this one.
    const { stdout, stderr } = runPython(
      "-I",
      "-S",
      "-c",
      `import sys; sys.path.insert(0, ${JSON.stringify(modelsFolder)})
from typing import get_type_hints
from astraflow_models import runs, v1, v2, first_generation
for module in (runs, v1, v2, first_generation):
    for name, model in vars(module).items():
        if hasattr(model, "__required_keys__"):
            get_type_hints(model)
print(get_type_hints(runs.Run)["runId"].__name__, sorted(v2.Envelope.__required_keys__))`,
    );

    expect(stderr).toBe("");
    expect(stdout.trim()).toBe("str ['id', 'payload', 'sender', 'tenant', 'ts', 'type']");
  });
});
