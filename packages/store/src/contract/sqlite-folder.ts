// A folder of its own for each test of a sqlite file, and hands on stores in it; what was opened is closed and removed after the test.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { openSqlite, type SqliteOptions, type SqliteStore } from "../sqlite/store.ts";
import { StoreClient } from "./hand.ts";
import type { StoreFixture } from "./stage.ts";
import { ManualClock } from "./stages.ts";

export interface TemporarySqliteFile {
  /** The file of the test that runs now. */
  readonly file: string;
  openClient(options?: Partial<SqliteOptions>): Promise<StoreClient>;
}

export function useTemporarySqliteFile(name: string): TemporarySqliteFile {
  let folder = "";
  let opened: SqliteStore[] = [];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), `astra-${name}-`));
    opened = [];
  });
  afterEach(async () => {
    for (const store of opened) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    get file() {
      return join(folder, "store.db");
    },
    openClient(options = {}) {
      const store = openSqlite({ file: this.file, clock: new ManualClock(), ...options });
      opened.push(store);
      return StoreClient.open({ handle: () => store } as unknown as StoreFixture);
    },
  };
}
