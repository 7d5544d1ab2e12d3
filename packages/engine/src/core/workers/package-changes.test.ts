import { describe, expect, it } from "vitest";
import type { WorkerDescription } from "../../interface/command.ts";
import { packageChanges } from "./package-changes.ts";

const pkg = (name: string, version = "1.0.0", status = "installed") => ({ name, version, status });
const after = (...packages: WorkerDescription["packages"]) => ({ packages }) as unknown as WorkerDescription;
const before = (...packages: WorkerDescription["packages"]) => JSON.stringify({ packages });

describe("what changed between two announcements", () => {
  it("[A311] packageChanges lists each package that was added, changed its status or was removed, by name and version, and nothing else", () => {
    const had = before(pkg("a"), pkg("b"), pkg("c"), pkg("d"));

    expect(packageChanges(had, after(pkg("a"), pkg("b", "2.0.0"), pkg("c", "1.0.0", "failed"), pkg("e")))).toEqual({
      changed: [
        pkg("b", "2.0.0"),
        pkg("c", "1.0.0", "failed"),
        pkg("e"),
        pkg("b", "1.0.0", "removed"),
        pkg("d", "1.0.0", "removed"),
      ],
    });
    expect(packageChanges(had, after(pkg("d"), pkg("c"), pkg("b"), pkg("a")))).toEqual({});
  });

  it("[A311] packageChanges lists all packages of a worker that was not known before", () => {
    expect(packageChanges("{}", after(pkg("a")))).toEqual({ changed: [pkg("a")] });
    expect(packageChanges("{}", after())).toEqual({});
  });
});
