// The SDK and the host for Python, tested by Python itself.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { repositoryRoot } from "../harness/processes.ts";

const folder = join(repositoryRoot, "python");
/** Without leaving compiled files in the sources. */
const runPython = (...args: string[]) => spawnSync("python3", ["-B", ...args], { cwd: folder, encoding: "utf8" });

describe("the SDK and the host for Python", () => {
  it("[W786] the Python SDK's harness runs adapters without a scheduler, and SDK and host pass their own tests", () => {
    const { status, stderr } = runPython("-m", "unittest", "discover", "-s", "tests", "-t", ".");

    expect(stderr).toMatch(/Ran (1[6-9]|[2-9]\d|\d{3,}) tests in [\s\S]*\nOK\n$/);
    expect(status).toBe(0);
  });

  it("[W1305] the generated types of the Python SDK are those of what it sends, and Python 3.10 can import them", () => {
    const { status, stderr } = runPython("-m", "unittest", "-v", "tests.test_types");

    expect(stderr).toMatch(/Ran 2 tests in [\s\S]*\nOK\n$/);
    expect(status).toBe(0);
  });

  it("[W786] the Python SDK and host need only the standard library", () => {
    // -S and -I: no site-packages, no paths but this one.
    const code = `import sys; sys.path.insert(0, ${JSON.stringify(folder)})
import astraflow_sdk, astraflow_sdk.testing, astraflow_host.main
print(sys.version_info >= (3, 10))`;
    const { stdout, stderr } = runPython("-I", "-S", "-c", code);

    expect({ stdout, stderr }).toEqual({ stdout: "True\n", stderr: "" });
  });
});
