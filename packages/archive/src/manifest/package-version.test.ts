import { describe, expect, it } from "vitest";
import { comparePackageVersions } from "./package-version.ts";

describe("versions of a package", () => {
  it("[R756] versions are ordered by their numbers, previews below their release, and what follows a + does not count", () => {
    const ordered = [
      "0.9.9",
      "1.0.0-alpha",
      "1.0.0-alpha.1",
      "1.0.0-alpha.beta",
      "1.0.0-rc.2",
      "1.0.0-rc.11",
      "1.0.0",
      "1.0.10",
      "2025.9.1",
      "2025.10.0",
    ];

    expect(ordered.toReversed().sort(comparePackageVersions)).toEqual(ordered);
    expect(comparePackageVersions("1.0.0+a", "1.0.0+b")).toBe(0);
    expect(comparePackageVersions("99999999999999999999.0.0", "99999999999999999998.0.0")).toBeGreaterThan(0);
  });
});
