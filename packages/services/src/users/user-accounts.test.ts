import { fault } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createFakeDocumentStore } from "../testing/fake-document-store.ts";
import { createFakeEnvironment } from "../testing/fake-environment.ts";
import { loginThrottleLimits } from "./login-throttle.ts";
import { UserAccounts } from "./user-accounts.ts";

const password = "correct horse battery";
const attempt = { tenant: "default", username: "admin", password, address: "10.0.0.1", corr: "req-1" };
/** More than would be free, for the name and for the address. */
const manyAttempts = loginThrottleLimits.address.freeFailures + 10;

async function openAccounts() {
  const store = createFakeDocumentStore();
  let isStoreAway = false;
  const reader: typeof store.reader = {
    ...store.reader,
    page: (query) => (isStoreAway ? Promise.reject(fault("E.STORE.BUSY", "the store is away")) : store.reader.page(query)),
  };
  const accounts = new UserAccounts({
    engineClient: store.engineClient,
    reader,
    environment: createFakeEnvironment(),
    passwordCost: { n: 16, r: 1, p: 1 },
  });
  await accounts.createFirstUser("default", password);
  const verify = accounts.passwords.verify.bind(accounts.passwords);
  return {
    accounts,
    setStoreAway: (isAway: boolean) => (isStoreAway = isAway),
    setOverloaded: (isOverloaded: boolean) => {
      accounts.passwords.verify = isOverloaded ? () => Promise.reject(fault("E.OVERLOADED", "too many logins")) : verify;
    },
  };
}

describe("attempts to sign in that could not be checked", () => {
  it("[A81] a login is not counted as a wrong password where the scheduler is overloaded or the store is away", async () => {
    const { accounts, setStoreAway, setOverloaded } = await openAccounts();

    setOverloaded(true);
    for (let n = 0; n < manyAttempts; n++) await expect(accounts.login(attempt)).rejects.toMatchObject({ code: "E.OVERLOADED" });
    setOverloaded(false);
    setStoreAway(true);
    for (let n = 0; n < manyAttempts; n++) await expect(accounts.login(attempt)).rejects.toMatchObject({ code: "E.STORE.BUSY" });
    setStoreAway(false);

    await expect(accounts.login({ ...attempt, password: "wrong" })).rejects.toMatchObject({ code: "E.AUTH.CREDENTIALS" });
    expect(await accounts.login(attempt)).toMatchObject({ user: { username: "admin" } });
  });

  it("[A81] the confirmation of a password is not counted as wrong where the scheduler is overloaded", async () => {
    const { accounts, setOverloaded } = await openAccounts();
    const { user } = await accounts.login(attempt);
    const confirm = (typed: string) =>
      accounts.confirmPassword({ tenant: "default", user: user.id, grants: [] }, typed, "10.0.0.2");

    setOverloaded(true);
    for (let n = 0; n < manyAttempts; n++) await expect(confirm(password)).rejects.toMatchObject({ code: "E.OVERLOADED" });
    setOverloaded(false);

    await expect(confirm("wrong")).rejects.toMatchObject({ code: "E.AUTH.CREDENTIALS" });
    await expect(confirm(password)).resolves.toBeUndefined();
  });
});
