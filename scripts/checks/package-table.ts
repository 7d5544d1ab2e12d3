/**
 * The table of packages in CONTRIBUTING.md: a row for every package that exists, with the packages it may import as layers.ts has them.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { listFolders, readText } from "../repository-files.ts";
import { allowedDependencies } from "./layers.ts";

const page = "CONTRIBUTING.md";
const tableRow = /^\| ((?:packages|apps)\/[\w-]+|examples) \| (.+) \| (.+) \|$/;

/** Packages without a row, rows without a package, rows with other imports than the check of layers allows. */
export function checkPackageTable(root: string): string[] {
  if (!existsSync(join(root, page))) return [`${page} is missing; it shows the table of packages`];
  const rows = new Map(
    readText(root, page)
      .split("\n")
      .flatMap((line) => {
        const [, folder, , imports] = tableRow.exec(line) ?? [];
        return folder === undefined || imports === undefined ? [] : [[folder, imports] as const];
      }),
  );
  const folders = [
    ...listFolders(root, "packages"),
    ...listFolders(root, "apps"),
    ...(existsSync(join(root, "examples")) ? ["examples"] : []),
  ];
  return [
    ...folders.filter((folder) => !rows.has(folder)).map((folder) => `${page}: the table of packages has no row for ${folder}`),
    ...[...rows].flatMap(([folder, imports]) => {
      if (!folders.includes(folder)) return [`${page}: the table of packages has a row for ${folder}, which does not exist`];
      const allowed = describeAllowed(allowedDependencies[folder] ?? []);
      return imports === allowed
        ? []
        : [`${page}: says that ${folder} may import ${imports}; scripts/checks/layers.ts says ${allowed}`];
    }),
  ];
}

const describeAllowed = (names: readonly string[]): string =>
  names.length === 0 ? "nothing" : names.includes("*") ? "all packages" : names.join(", ");
