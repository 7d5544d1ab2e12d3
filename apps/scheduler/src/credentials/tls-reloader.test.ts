import { expect, it } from "vitest";
import type { Log } from "../platform/log.ts";
import { createTlsReloader, type ServerTlsCredentials, TlsFileError } from "./tls-credentials.ts";

const dayMs = 86_400_000;
const tlsCredentials = (name: string, expiresAt: number, authorities: readonly string[] = ["a"]): ServerTlsCredentials => ({
  cert: `cert ${name}`,
  key: `key ${name}`,
  ca: authorities.join(),
  expiresAt,
  authorities,
});

function createFixture(first: ServerTlsCredentials) {
  const events: string[] = [];
  const note = (_fields: unknown, event?: string) => void events.push(String(event));
  const log = { debug: note, info: note, warn: note, error: note, fatal: note } as Log;
  const world = { now: 0, files: first as ServerTlsCredentials | Error, used: first, distrusted: 0 };
  const reload = createTlsReloader({
    first,
    log,
    now: () => world.now,
    async read() {
      if (world.files instanceof Error) throw world.files;
      return world.files;
    },
    apply: (fresh) => void (world.used = fresh),
    onAuthorityRemoved: () => void (world.distrusted += 1),
  });
  return { world, reload, events };
}

it("[O35] a TLS certificate is logged once within a week of expiry and once when expired, and its successor is then used", async () => {
  const { world, reload, events } = createFixture(tlsCredentials("one", 10 * dayMs));
  const lookAt = async (now: number): Promise<void> => {
    world.now = now;
    await reload();
    await reload();
  };

  for (const day of [0, 2.9, 3, 5, 10, 11]) await lookAt(day * dayMs);
  expect(events).toEqual(["tls.expiring", "tls.expired"]);

  world.files = tlsCredentials("two", 40 * dayMs);
  await lookAt(12 * dayMs);
  expect(world.used.cert).toBe("cert two");
  expect(events.slice(2)).toEqual(["tls.changed"]);
});

it("[O35] broken TLS files are logged once per problem, and the next good ones are used", async () => {
  const { world, reload, events } = createFixture(tlsCredentials("one", 99 * dayMs));

  for (const files of [
    new TlsFileError("broken"),
    new TlsFileError("broken"),
    new TlsFileError("torn"),
    tlsCredentials("two", 99 * dayMs),
  ]) {
    world.files = files;
    await reload();
  }

  expect(events).toEqual(["tls.kept", "tls.kept", "tls.changed"]);
  expect(world.used.cert).toBe("cert two");
  world.files = new Error("a bug");
  await expect(reload()).rejects.toThrow("a bug");
});

it("[O35] the TLS reloader distrusts accepted client certificates only when a CA is removed, not when one is added", async () => {
  const { world, reload } = createFixture(tlsCredentials("one", 99 * dayMs, ["a"]));
  const distrusted: number[] = [];

  for (const authorities of [["a", "b"], ["b"], ["b", "c"], ["c"]]) {
    world.files = tlsCredentials("one", 99 * dayMs, authorities);
    await reload();
    expect(world.used.authorities).toEqual(authorities);
    distrusted.push(world.distrusted);
  }

  expect(distrusted).toEqual([0, 1, 1, 2]);
});
