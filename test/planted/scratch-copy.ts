/** A copy of the repository in a temporary folder, in which bugs are planted: the checkout itself is never changed. */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { listFiles } from "../../scripts/repository-files.ts";

/** Packages are links to the checkout's own; those of the workspaces are links inside the copy, so that it runs its own sources. */
function linkPackages(root: string, copy: string): void {
  const from = join(root, "node_modules");
  const to = join(copy, "node_modules");
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (entry.name.startsWith(".") && entry.name !== ".bin") continue; // caches belong to one checkout
    const inside = entry.name.startsWith("@") ? readdirSync(join(from, entry.name), { withFileTypes: true }) : [];
    if (!inside.some((one) => one.isSymbolicLink())) {
      symlinkSync(join(from, entry.name), join(to, entry.name));
      continue;
    }
    mkdirSync(join(to, entry.name));
    for (const one of inside) {
      const target = join(from, entry.name, one.name);
      symlinkSync(one.isSymbolicLink() ? readlinkSync(target) : target, join(to, entry.name, one.name));
    }
  }
}

/** Returns the folder of the copy and a function that removes it. */
export function copyRepository(root: string): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), "astra-planted-"));
  for (const path of listFiles(root)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    copyFileSync(join(root, path), join(folder, path));
  }
  linkPackages(root, folder);
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
