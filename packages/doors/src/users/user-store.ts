// The documents about people: a user under its id, its name as a document of its own (so that a name is given once), and the keys that
// sign a tenant's tokens. Read and written here; who may do what to whom is decided in people.ts and in the routes.

import type { AuditEntry, DocPut, DocRow, StoreReader } from "@astraflow/engine";
import { Fault, fault, type UserRole } from "@astraflow/protocol";
import type { SessionKey } from "../auth/session-tokens.ts";
import type { EngineClient } from "../engine-client/engine-client.ts";

export interface User {
  readonly id: string;
  readonly username: string;
  readonly displayName: string;
  readonly roles: readonly UserRole[];
  readonly isActive: boolean;
  /** As passwords.ts keeps it. */
  readonly password: string;
  /** Raised when all tokens given out so far are taken back. */
  readonly gen: number;
  /** Single tokens that were taken back and would still be good. */
  readonly revoked: readonly { readonly jti: string; readonly exp: number }[];
  readonly createdAt: number;
}

/** On whose behalf something is written, under which request. */
export interface Actor {
  readonly tenant: string;
  readonly by: string;
  readonly corr: string;
}

export interface UserStore {
  find(tenant: string, id: string): Promise<{ readonly user: User | null; readonly rev: number; readonly head: number }>;
  findByName(tenant: string, username: string): Promise<User | null>;
  list(query: UserQuery): Promise<{ readonly users: readonly User[]; readonly next: string | null; readonly head: number }>;
  create(
    actor: Actor,
    user: User,
    idempotencyKey: { readonly key: string; readonly digest: string } | null,
  ): Promise<{ repeated: boolean }>;
  /** What `change` makes of the user as it is now; the same object: nothing to do. Null: there is no such user. */
  update(actor: Actor, id: string, words: UserChange, change: (user: User) => User): Promise<UserChangeResult | null>;
  /** An entry in the audit without a change. */
  recordAudit(actor: Actor, audit: AuditEntry): Promise<void>;
  readSigningKeys(tenant: string): Promise<{ readonly keys: readonly SessionKey[]; readonly rev: number }>;
  /** False: somebody else was quicker. */
  storeSigningKeys(actor: Actor, keys: readonly SessionKey[], rev: number): Promise<boolean>;
}

export interface UserQuery {
  readonly tenant: string;
  readonly search?: string;
  readonly after?: string;
  readonly limit: number;
}

export interface UserChange {
  readonly action: string;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Under its key the change is made once. */
  readonly ask?: UserIdempotencyKey;
}

/** The user as it is now; `repeated`: an earlier request under the key did it. */
export interface UserChangeResult {
  readonly user: User;
  readonly repeated: boolean;
}

/** Someone else may write the same user between our look and our write, but not for ever. */
const updateAttemptsMax = 8;
const normalizeUsername = (username: string): string => username.normalize("NFC").toLowerCase();

export function createUserStore({
  engineClient,
  reader,
}: {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
}): UserStore {
  const readDocument = async (
    tenant: string,
    collection: string,
    name: string,
  ): Promise<{ doc: DocRow | null; head: number }> => {
    const { items, head } = await reader.page({ page: "doc", tenant, collection, names: [name] });
    return { doc: items[0] ?? null, head };
  };
  const find: UserStore["find"] = async (tenant, id) => {
    const { doc, head } = await readDocument(tenant, "user", id);
    return { user: doc === null ? null : parseUser(doc), rev: doc?.rev ?? 0, head };
  };
  const write = (actor: Actor, puts: readonly DocPut[], audit?: AuditEntry, idempotencyKey: UserIdempotencyKey = null) =>
    engineClient.request({ type: "docs.write", ...actor, puts, ...(audit !== undefined && { audit }), ask: idempotencyKey });
  /** What changes nothing is remembered under its key all the same. */
  const isRepeatedRequest = async (actor: Actor, idempotencyKey: UserIdempotencyKey): Promise<boolean> => {
    const answer = await write(actor, [], undefined, idempotencyKey);
    return answer.of === "docs" && answer.repeated;
  };

  return {
    find,
    async findByName(tenant, username) {
      const { doc } = await readDocument(tenant, "username", normalizeUsername(username));
      // Nobody is looked up likewise: the time it takes must not tell which names there are.
      const { userId } = doc === null ? { userId: "nobody" } : (JSON.parse(doc.body) as { userId: string });
      return (await find(tenant, userId)).user;
    },
    async list({ tenant, search, after, limit }) {
      const { items, next, head } = await reader.page({
        page: "docs",
        tenant,
        collection: "user",
        limit,
        ...(search !== undefined && { search }),
        ...(after !== undefined && { after }),
      });
      return { users: items.map(parseUser), next, head };
    },
    async create(actor, user, idempotencyKey) {
      const audit = { action: "user.create", targetType: "user", target: user.id, data: { roles: user.roles } };
      const name = {
        collection: "username",
        name: normalizeUsername(user.username),
        rev: 0,
        body: JSON.stringify({ userId: user.id }),
      };
      const answer = await write(actor, [{ ...userPut(user), rev: 0 }, name], audit, idempotencyKey);
      if (answer.of !== "docs") throw fault("E.INTERNAL", `docs.write was answered with ${answer.of}`);
      return { repeated: answer.repeated };
    },
    async update(actor, id, { action, data, ask: idempotencyKey = null }, change) {
      for (let attempts = 1; ; attempts += 1) {
        const { user, rev } = await find(actor.tenant, id);
        const next = user === null ? null : change(user);
        if (next === null) return null;
        if (next === user) return { user, repeated: idempotencyKey !== null && (await isRepeatedRequest(actor, idempotencyKey)) };
        const audit = { action, targetType: "user", target: id, ...(data !== undefined && { data }) };
        try {
          const answer = await write(actor, [{ ...userPut(next), rev }], audit, idempotencyKey);
          return { user: next, repeated: answer.of === "docs" && answer.repeated };
        } catch (why) {
          if (!isConflict(why) || attempts >= updateAttemptsMax) throw why;
        }
      }
    },
    async recordAudit(actor, audit) {
      await write(actor, [], audit);
    },
    async readSigningKeys(tenant) {
      const { doc } = await readDocument(tenant, "signing", "keys");
      return { keys: doc === null ? [] : parseSigningKeys(doc), rev: doc?.rev ?? 0 };
    },
    async storeSigningKeys(actor, keys, rev) {
      const list = keys.map(({ kid, secret, madeAt }) => ({ kid, secret: Buffer.from(secret).toString("base64url"), madeAt }));
      try {
        await write(actor, [{ collection: "signing", name: "keys", rev, body: JSON.stringify({ keys: list }) }]);
        return true;
      } catch (why) {
        if (isConflict(why)) return false;
        throw why;
      }
    },
  };
}

export type UserIdempotencyKey = { readonly key: string; readonly digest: string } | null;

export const isConflict = (why: unknown): boolean => why instanceof Fault && why.code === "E.CONFLICT";

/** A document's id is `<tenant>/<collection>/<name>`. */
const documentNameOf = (doc: DocRow): string => doc.id.slice(doc.tenant.length + doc.collection.length + 2);

const parseUser = (doc: DocRow): User => ({ id: documentNameOf(doc), ...(JSON.parse(doc.body) as Omit<User, "id">) });

function userPut({ id, ...body }: User): DocPut {
  const name = normalizeUsername(body.username);
  return {
    collection: "user",
    name: id,
    body: JSON.stringify(body),
    sort: name,
    terms: `${name} ${body.displayName.toLowerCase()}`,
  };
}

function parseSigningKeys(doc: DocRow): readonly SessionKey[] {
  const { keys } = JSON.parse(doc.body) as { keys: { kid: string; secret: string; madeAt: number }[] };
  return keys.map(({ kid, secret, madeAt }) => ({ kid, secret: Buffer.from(secret, "base64url"), madeAt }));
}
