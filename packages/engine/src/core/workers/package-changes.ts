// Which packages were added, changed or removed between two announcements of a worker, for the fact about the second. Pure.

import type { JoinWorkerCommand, WorkerDescription } from "../../interface/command.ts";
import type { Fact } from "../../storage/rows.ts";

type Package = WorkerDescription["packages"][number];

/** Part of the fact's data: empty where nothing changed, as with most workers that join again. `before` is the text of the row. */
export function packageChanges(before: string, after: WorkerDescription): { readonly changed?: readonly Package[] } {
  const { packages = [] } = JSON.parse(before) as Partial<WorkerDescription>;
  const had = new Map(packages.map((one) => [packageId(one), one.status]));
  const has = new Set(after.packages.map(packageId));
  const came = after.packages.filter((one) => had.get(packageId(one)) !== one.status);
  const went = packages.filter((one) => !has.has(packageId(one)));
  if (came.length === 0 && went.length === 0) return {};
  return {
    changed: [
      ...came.map(({ name, version, status }) => ({ name, version, status })),
      ...went.map(({ name, version }) => ({ name, version, status: "removed" })),
    ],
  };
}

/** What a session says of its worker, with the packages that are known where it has named none. `before` is the text of the row. */
export function withKnownPackages(
  { about, keepsPackages }: Pick<JoinWorkerCommand, "about" | "keepsPackages">,
  before: string,
): WorkerDescription {
  if (keepsPackages !== true) return about;
  const { packages = [], handlers } = JSON.parse(before) as Partial<WorkerDescription>;
  return { ...about, packages, ...(handlers !== undefined && { handlers }) };
}

/** Data of the fact that a worker announced something else than before. */
export const describedData = (before: string, about: WorkerDescription): Fact["data"] => ({
  packages: about.packages.length,
  slots: about.slots,
  ...packageChanges(before, about),
});

const packageId = ({ name, version }: Package): string => `${name}@${version}`;
