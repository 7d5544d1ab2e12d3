// The documents about users: a user under its id, its name as a document of its own (so that names are unique), and the keys that
// sign a tenant's tokens. Only reads and writes; who may do what is decided by the callers.

import type { AuditEntry, DocPut, DocRow, IdempotencyKey, StoreReader } from "@astraflow/engine";
import type { UserRole } from "@astraflow/protocol";
import {
  type DocumentWrite,
  documentNameOf,
  isConflict,
  readDocument,
  retryOnConflict,
  writeDocuments,
} from "../documents/documents.ts";
import type { EngineClient } from "../environment/engine-client.ts";
import type { Actor } from "../identity/caller.ts";
import type { SigningKey } from "../identity/signing-keys.ts";

export interface User {
  readonly id: string;
  readonly username: string;
  readonly displayName: string;
  readonly roles: readonly UserRole[];
  readonly isActive: boolean;
  /** The hash made by passwords.ts. */
  readonly password: string;
  /** Raised to revoke all tokens issued so far. */
  readonly gen: number;
  /** Single tokens that were revoked before they expire. */
  readonly revoked: readonly { readonly jti: string; readonly exp: number }[];
  readonly createdAt: number;
}

export interface UserStore {
  find(tenant: string, id: string): Promise<{ readonly user: User | null; readonly rev: number; readonly head: number }>;
  findByName(tenant: string, username: string): Promise<User | null>;
  list(query: UserQuery): Promise<{ readonly users: readonly User[]; readonly next: string | null; readonly head: number }>;
  create(actor: Actor, user: User, idempotencyKey: IdempotencyKey | null): Promise<{ readonly repeated: boolean }>;
  /** Applies `change` to the current user; returning the same object means nothing to do. Null: there is no such user. */
  update(actor: Actor, id: string, words: UserChange, change: (user: User) => User): Promise<UserChangeResult | null>;
  /** Writes an audit entry without a change. */
  recordAudit(actor: Actor, audit: AuditEntry): Promise<void>;
  readSigningKeys(tenant: string): Promise<{ readonly keys: readonly SigningKey[]; readonly rev: number }>;
  /** False: another writer was faster. */
  storeSigningKeys(actor: Actor, keys: readonly SigningKey[], rev: number): Promise<boolean>;
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
  /** With a key the change is made once. */
  readonly ask?: IdempotencyKey | null;
}

/** The user after the change; `repeated`: an earlier request with the key made it. */
export interface UserChangeResult {
  readonly user: User;
  readonly repeated: boolean;
}

/** Another writer may change the user between our read and our write; we try this often. */
const updateAttemptsMax = 8;
const normalizeUsername = (username: string): string => username.normalize("NFC").toLowerCase();

export function createUserStore({
  engineClient,
  reader,
}: {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
}): UserStore {
  const write = (actor: Actor, words: DocumentWrite) => writeDocuments(engineClient, actor, words);
  const find: UserStore["find"] = async (tenant, id) => {
    const { doc, head } = await readDocument(reader, tenant, "user", id);
    return { user: doc === null ? null : parseUser(doc), rev: doc?.rev ?? 0, head };
  };

  return {
    find,
    async findByName(tenant, username) {
      const { doc } = await readDocument(reader, tenant, "username", normalizeUsername(username));
      // Do the second read for unknown names too, so that timing does not reveal which names exist.
      const { userId } = doc === null ? { userId: "nobody" } : (JSON.parse(doc.body) as { userId: string });
      return (await find(tenant, userId)).user;
    },
    async list(query) {
      const { items, next, head } = await reader.page({ page: "docs", collection: "user", ...query });
      return { users: items.map(parseUser), next, head };
    },
    create(actor, user, idempotencyKey) {
      const audit = { action: "user.create", targetType: "user", target: user.id, data: { roles: user.roles } };
      const name = {
        collection: "username",
        name: normalizeUsername(user.username),
        rev: 0,
        body: JSON.stringify({ userId: user.id }),
      };
      return write(actor, { puts: [{ ...userPut(user), rev: 0 }, name], audit, ask: idempotencyKey });
    },
    update: (actor, id, { action, data, ask = null }, change) =>
      retryOnConflict(updateAttemptsMax, async () => {
        const { user, rev } = await find(actor.tenant, id);
        if (user === null) return null;
        const next = change(user);
        // A change of nothing is still remembered under its key.
        if (next === user) return { user, repeated: ask !== null && (await write(actor, { ask })).repeated };
        const audit = { action, targetType: "user", target: id, ...(data !== undefined && { data }) };
        return { user: next, repeated: (await write(actor, { puts: [{ ...userPut(next), rev }], audit, ask })).repeated };
      }),
    async recordAudit(actor, audit) {
      await write(actor, { audit });
    },
    async readSigningKeys(tenant) {
      const { doc } = await readDocument(reader, tenant, "signing", "keys");
      return { keys: doc === null ? [] : parseSigningKeys(doc), rev: doc?.rev ?? 0 };
    },
    async storeSigningKeys(actor, keys, rev) {
      const list = keys.map(({ kid, secret, madeAt }) => ({ kid, secret: Buffer.from(secret).toString("base64url"), madeAt }));
      try {
        await write(actor, { puts: [{ collection: "signing", name: "keys", rev, body: JSON.stringify({ keys: list }) }] });
        return true;
      } catch (why) {
        if (isConflict(why)) return false;
        throw why;
      }
    },
  };
}

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

function parseSigningKeys(doc: DocRow): readonly SigningKey[] {
  const { keys } = JSON.parse(doc.body) as { keys: { kid: string; secret: string; madeAt: number }[] };
  return keys.map(({ kid, secret, madeAt }) => ({ kid, secret: Buffer.from(secret, "base64url"), madeAt }));
}
