// The documents about users: a user under its id, its name as a document of its own (so that names are unique), and the signing keys.

import type { DocPut, DocRow, IdempotencyKey } from "@astraflow/engine";
import type { UserRole } from "@astraflow/protocol";
import { isConflict, RecordStore, readDocument, recordPut, retryOnConflict } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import type { Actor } from "../identity/identity.ts";
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
/** Documents have a tenant; this one belongs to the installation. */
const keyIdSecretTenant = "default";
const normalizeUsername = (username: string): string => username.normalize("NFC").toLowerCase();

export class UserStore extends RecordStore<User> {
  constructor(context: Pick<ServiceContext, "engineClient" | "reader">) {
    super(context, "user");
  }

  async findByName(tenant: string, username: string): Promise<User | null> {
    const { doc } = await readDocument(this.context.reader, tenant, "username", normalizeUsername(username));
    // Do the second read for unknown names too, so that timing does not reveal which names exist.
    const { userId } = doc === null ? { userId: "nobody" } : (JSON.parse(doc.body) as { userId: string });
    return (await this.find(tenant, userId)).record;
  }

  create(actor: Actor, user: User, ask: IdempotencyKey | null): Promise<{ readonly repeated: boolean }> {
    const body = JSON.stringify({ userId: user.id });
    const name = { collection: "username", name: normalizeUsername(user.username), rev: 0, body };
    const audit = { action: "user.create", targetType: "user", target: user.id, data: { roles: user.roles } };
    return this.write(actor, { puts: [userPut(user, 0), name], audit, ask });
  }

  /** Applies `change` to the current user; returning the same object means nothing to do. Null: there is no such user. */
  update(actor: Actor, id: string, { action, data, ask = null }: UserChange, change: (user: User) => User) {
    return retryOnConflict(updateAttemptsMax, async (): Promise<UserChangeResult | null> => {
      const { record: user, rev } = await this.find(actor.tenant, id);
      if (user === null) return null;
      const next = change(user);
      // A change of nothing is still remembered under its key.
      if (next === user) return { user, repeated: ask !== null && (await this.write(actor, { ask })).repeated };
      const audit = { action, targetType: "user", target: id, ...(data !== undefined && { data }) };
      return { user: next, repeated: (await this.write(actor, { puts: [userPut(next, rev)], audit, ask })).repeated };
    });
  }

  async readSigningKeys(tenant: string): Promise<{ readonly keys: readonly SigningKey[]; readonly rev: number }> {
    const { doc } = await readDocument(this.context.reader, tenant, "signing", "keys");
    return { keys: doc === null ? [] : parseSigningKeys(doc), rev: doc?.rev ?? 0 };
  }

  /** False: another writer was faster. */
  storeSigningKeys(actor: Actor, keys: readonly SigningKey[], rev: number): Promise<boolean> {
    const list = keys.map(({ kid, secret, madeAt }) => ({ kid, secret: Buffer.from(secret).toString("base64url"), madeAt }));
    return this.#storeSigning(actor, "keys", rev, { keys: list });
  }

  /** One for all tenants of the store; null where there is none yet. */
  async readKeyIdSecret(): Promise<Uint8Array | null> {
    const { doc } = await readDocument(this.context.reader, keyIdSecretTenant, "signing", "key-ids");
    return doc === null ? null : Buffer.from((JSON.parse(doc.body) as { secret: string }).secret, "base64url");
  }

  /** False: another writer was faster. */
  storeKeyIdSecret(actor: Omit<Actor, "tenant">, secret: Uint8Array): Promise<boolean> {
    const body = { secret: Buffer.from(secret).toString("base64url") };
    return this.#storeSigning({ ...actor, tenant: keyIdSecretTenant }, "key-ids", 0, body);
  }

  async #storeSigning(actor: Actor, name: string, rev: number, body: object): Promise<boolean> {
    try {
      await this.write(actor, { puts: [{ collection: "signing", name, rev, body: JSON.stringify(body) }] });
      return true;
    } catch (why) {
      if (isConflict(why)) return false;
      throw why;
    }
  }
}

function userPut(user: User, rev: number): DocPut {
  const sort = normalizeUsername(user.username);
  return recordPut("user", user, rev, { sort, terms: `${sort} ${user.displayName.toLowerCase()}` });
}

function parseSigningKeys(doc: DocRow): readonly SigningKey[] {
  const { keys } = JSON.parse(doc.body) as { keys: { kid: string; secret: string; madeAt: number }[] };
  return keys.map(({ kid, secret, madeAt }) => ({ kid, secret: Buffer.from(secret, "base64url"), madeAt }));
}
