// The documents of saved views: a view under its id, its name as a document of its own (so that nobody has two of one name on one page), and
// how many a tenant has (so that the limit holds however many ask at once). Who may see and change which is decided by the routes.

import type { AuditWords, DocPut, Reader } from "@astraflow/engine";
import { Fault, fault, type SavedView, viewLimits } from "@astraflow/protocol";
import type { EngineClient } from "../../link.ts";
import type { Doer } from "../../people/people-store.ts";
import { createSemaphore } from "../../turnstile.ts";

export type ViewRecord = Omit<SavedView, "viewId" | "revision" | "createdAt" | "updatedAt"> & {
  readonly id: string;
  readonly createdAt: number;
  readonly updatedAt: number;
};
export interface KeptView {
  readonly record: ViewRecord;
  readonly rev: number;
}
type Ask = { readonly key: string; readonly digest: string };

export interface ViewStore {
  find(tenant: string, id: string): Promise<{ readonly kept: KeptView | null; readonly head: number }>;
  list(query: {
    readonly tenant: string;
    readonly after?: string;
    readonly limit: number;
  }): Promise<{ readonly items: readonly KeptView[]; readonly next: string | null; readonly head: number }>;
  create(doer: Doer, record: ViewRecord, ask: Ask | null): Promise<{ readonly repeated: boolean }>;
  /** Conflicts where the view is in another revision by now. */
  replace(doer: Doer, kept: KeptView, next: ViewRecord): Promise<{ readonly rev: number }>;
  remove(doer: Doer, kept: KeptView): Promise<void>;
}

/** Others may keep and remove views between our count and our write, but not for ever. */
const countsTriedMax = 8;
const countName = "all";

export interface ViewStoreOptions {
  readonly engineClient: EngineClient;
  readonly reader: Reader;
  readonly digest: (text: string) => string;
}

export function createViewStore({ engineClient, reader, digest }: ViewStoreOptions): ViewStore {
  const docOf = async (tenant: string, collection: string, name: string) => {
    const { items, head } = await reader.page({ page: "doc", tenant, collection, names: [name] });
    return { doc: items[0] ?? null, head };
  };
  const countOf = async (tenant: string): Promise<{ views: number; rev: number }> => {
    const { doc } = await docOf(tenant, "viewcount", countName);
    return doc === null ? { views: 0, rev: 0 } : { ...(JSON.parse(doc.body) as { views: number }), rev: doc.rev };
  };
  const nameOf = ({ ownerId, page, name }: ViewRecord): string => digest(JSON.stringify(["view", ownerId, page, folded(name)]));
  const find: ViewStore["find"] = async (tenant, id) => {
    const { doc, head } = await docOf(tenant, "view", id);
    return { kept: doc === null ? null : keptOf(doc), head };
  };
  const write = async (doer: Doer, record: ViewRecord, words: Writing) => {
    try {
      const answer = await engineClient.request({ type: "docs.write", ...doer, ...words });
      if (answer.of !== "docs") throw fault("E.INTERNAL", `docs.write was answered with ${answer.of}`);
      return answer;
    } catch (why) {
      throw clashIn(why) === "viewname" ? taken(record) : why;
    }
  };
  const turns = new Map<string, ReturnType<typeof createSemaphore>>();
  const turnOf = (tenant: string): ReturnType<typeof createSemaphore> => {
    const turn = turns.get(tenant) ?? createSemaphore(1);
    turns.set(tenant, turn);
    return turn;
  };
  /**
   * One after the other here: they would all be refused but one, and the audit would tell of refusals that nobody has heard. Once more where
   * another scheduler has kept or removed a view meanwhile.
   */
  const counted = <T>(tenant: string, act: (count: { views: number; rev: number }) => Promise<T>): Promise<T> =>
    turnOf(tenant)(async () => {
      for (let tries = 1; ; tries += 1)
        try {
          return await act(await countOf(tenant));
        } catch (why) {
          if (clashIn(why) !== "viewcount") throw why;
          if (tries >= countsTriedMax) throw busy(why);
        }
    });
  const putCount = (views: number, rev: number): DocPut => ({
    collection: "viewcount",
    name: countName,
    rev,
    body: JSON.stringify({ views }),
  });
  const putName = (record: ViewRecord): DocPut => ({
    collection: "viewname",
    name: nameOf(record),
    rev: 0,
    body: JSON.stringify({ viewId: record.id }),
  });
  /** A name has one revision: it is given, and taken away. */
  const dropName = (record: ViewRecord) => ({ collection: "viewname", name: nameOf(record), rev: 1 });

  return {
    find,
    async list(query) {
      const { items, next, head } = await reader.page({ page: "docs", collection: "view", ...query });
      return { items: items.map(keptOf), next, head };
    },
    create: (doer, record, ask) =>
      counted(doer.tenant, async ({ views, rev }) => {
        // A repeat takes no room: what it asks for is there.
        if (views >= viewLimits.perTenantMax && (ask === null || (await find(doer.tenant, record.id)).kept === null))
          throw full();
        return write(doer, record, {
          puts: [putOf(record, 0), putName(record), putCount(views + 1, rev)],
          audit: auditOf("view.create", record),
          ask,
        });
      }),
    async replace(doer, { record, rev }, next) {
      const isNamed = nameOf(record) === nameOf(next);
      const { revs } = await write(doer, next, {
        puts: [putOf(next, rev), ...(isNamed ? [] : [putName(next)])],
        drops: isNamed ? [] : [dropName(record)],
        audit: auditOf("view.update", next),
      });
      return { rev: revs[0] ?? rev + 1 };
    },
    remove: (doer, { record, rev }) =>
      counted(doer.tenant, async (count) => {
        await write(doer, record, {
          puts: [putCount(count.views - 1, count.rev)],
          drops: [{ collection: "view", name: record.id, rev }, dropName(record)],
          audit: auditOf("view.delete", record),
        });
      }),
  };
}

interface Writing {
  readonly puts: readonly DocPut[];
  readonly drops?: readonly { readonly collection: string; readonly name: string; readonly rev: number }[];
  readonly audit: AuditWords;
  readonly ask?: Ask | null;
}

/** Two names that look alike are one. */
const folded = (name: string): string => name.normalize("NFC").trim().toLowerCase();

/** A document's id is `<tenant>/<collection>/<name>`. */
const keptOf = (doc: { id: string; tenant: string; collection: string; body: string; rev: number }): KeptView => ({
  record: {
    id: doc.id.slice(doc.tenant.length + doc.collection.length + 2),
    ...(JSON.parse(doc.body) as Omit<ViewRecord, "id">),
  },
  rev: doc.rev,
});

const putOf = ({ id, ...body }: ViewRecord, rev: number): DocPut => ({
  collection: "view",
  name: id,
  rev,
  body: JSON.stringify(body),
  sort: folded(body.name),
});

const auditOf = (action: string, { id, name, page, shared }: ViewRecord): AuditWords => ({
  action,
  targetType: "view",
  target: id,
  data: { name, page, shared },
});

/** The collection whose document was not as it was thought to be; null: it is no such refusal. */
const clashIn = (why: unknown): unknown =>
  why instanceof Fault && why.code === "E.CONFLICT" ? (why.details?.["collection"] ?? null) : null;

const taken = ({ name, page }: ViewRecord): Fault =>
  fault("E.CONFLICT", `there is a view "${name.slice(0, 100)}" of ${page} already; choose another name or change that one`);
const busy = (cause: unknown): Fault =>
  fault("E.STORE.BUSY", "too many views are kept or removed at this moment; nothing was changed, try again", undefined, cause);
const full = (): Fault =>
  fault("E.LIMIT.REACHED", `the tenant keeps ${viewLimits.perTenantMax} views, which is all it may; remove one first`);
