// Lists of what was ordered for a package, newest first.

import type { DocRow } from "@astraflow/engine";
import { searchTermFor } from "../documents/derived-names.ts";
import { listDocuments } from "../documents/document-list.ts";
import { documentNameOf } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { notPublishedFault, type PackageRepository } from "../packages/package-repository.ts";

export interface OperationPage {
  readonly cursor: string | undefined;
  readonly limit: number;
}

/** Throws E.NOT_FOUND for a package of which nothing is known. */
export async function listOperations<R extends { readonly id: string }, T>(
  { reader, packages }: Pick<ServiceContext, "reader"> & { readonly packages: PackageRepository },
  { tenant, collection, packageName }: { readonly tenant: string; readonly collection: string; readonly packageName: string },
  page: OperationPage,
  present: (record: R) => T,
) {
  const search = searchTermFor("package", packageName);
  const view = (doc: DocRow): T => present({ id: documentNameOf(doc), ...(JSON.parse(doc.body) as Omit<R, "id">) } as R);
  const list = await listDocuments<T>(reader, { tenant, collection, order: "desc", search }, { ...page, view });
  if (list.items.length === 0 && page.cursor === undefined && (await packages.list(tenant, packageName)).items.length === 0)
    throw notPublishedFault(packageName);
  return list;
}
