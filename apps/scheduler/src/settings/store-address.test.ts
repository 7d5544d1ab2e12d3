import { SettingProblem } from "@astraflow/settings";
import { describe, expect, it } from "vitest";
import { createPasswordMask, describeStoreAddress, parseStoreAddress, type StoreAddress } from "./store-address.ts";

const secret = "s3cret/%word";
const written = encodeURIComponent(secret);
const server: StoreAddress = { of: "postgres", url: `postgres://astra:${written}@db.internal:5433/flows?sslmode=require` };

describe("the place of the store", () => {
  it("[O21] the store is a SQLite file in the data folder unless --store names another", () => {
    expect(parseStoreAddress("", "/data")).toEqual({ of: "sqlite", file: "/data/astra.db" });
    expect(parseStoreAddress("sqlite:/x/y.db", "/data")).toEqual({ of: "sqlite", file: "/x/y.db" });
    expect(parseStoreAddress("sqlite:///x/y.db", "/data")).toEqual({ of: "sqlite", file: "/x/y.db" });
  });

  it("[O21] the store address may be a PostgreSQL server, with either URL scheme or a socket", () => {
    for (const url of ["postgres://u:p@h:5432/d", "postgresql://u@h/d", "postgres:///d?host=/run/postgresql&user=u@x"])
      expect(parseStoreAddress(url, "/data")).toEqual({ of: "postgres", url });
  });

  it("[O21] an invalid store address is refused with the right format and without anything that may be a secret", () => {
    const wrong = [
      `postgre://u:${secret}@h/d`,
      `u:${secret}@h/d`,
      `postgres://u:${written}@h`,
      "postgres:///d",
      `postgres://u:${written}@h:none/d`,
      "postgres://u:100%@h/d",
    ];
    for (const text of [...wrong, "sqlite:", "mysql:x", "plain.db"]) {
      const refusal = parseStoreAddress(text, "/data");

      expect(refusal).toBeInstanceOf(SettingProblem);
      expect((refusal as SettingProblem).reason).toMatch(/postgres:\/\/USER:PASSWORD@HOST|%25/);
      expect((refusal as SettingProblem).reason).not.toMatch(/s3cret|100%/);
    }
  });

  it("[O21] a store address whose password has an unescaped / or # is refused with how to escape it, and repeats none of it", () => {
    for (const password of ["12/s3cret", "12#s3cret", "s3cret/x", "s3cret#x", "s3cret?x"]) {
      const refusal = parseStoreAddress(`postgres://u:${password}@h/d`, "/data");

      expect((refusal as SettingProblem).reason).toMatch(/\/ as %2F, # as %23/);
      expect((refusal as SettingProblem).reason).not.toMatch(/s3cret|u:12/);
    }
  });

  it("[O30] the sslmode of a store address is verify-full, no-verify or disable; others map to verify-full or are refused", () => {
    const modeOf = (mode: string) => {
      const address = parseStoreAddress(`postgres://u:p@h/d?sslmode=${mode}&x=1`, "/data");
      return address instanceof SettingProblem
        ? address.reason
        : address.of === "postgres" && new URL(address.url).searchParams.get("sslmode");
    };

    expect(["require", "verify-ca", "verify-full", "no-verify", "disable"].map(modeOf)).toEqual([
      "verify-full",
      "verify-full",
      "verify-full",
      "no-verify",
      "disable",
    ]);
    for (const mode of ["prefer", "allow", "Require", "toString"])
      expect(modeOf(mode)).toMatch(/sslmode=verify-full.*sslrootcert/);
  });

  it("[O21] a store address is shown without its password and without its options", () => {
    expect(describeStoreAddress(server)).toBe("postgres://astra@db.internal:5433/flows");
    expect(describeStoreAddress({ of: "sqlite", file: "/x/y.db" })).toBe("/x/y.db");
  });

  it("[O21] the password of a store address is masked in every text, raw, URL-encoded or as JSON", () => {
    const veil = createPasswordMask(server);

    expect(veil(`raw ${secret}, in an address ${written}, as JSON ${JSON.stringify({ secret })}`)).toBe(
      `raw ***, in an address ***, as JSON {"secret":"***"}`,
    );
    expect(createPasswordMask({ of: "postgres", url: "postgres://astra:astra@h/astra" })("astra is no secret")).toBe(
      "astra is no secret",
    );
  });
});
