// A folder of its own for each test of a sqlite file, and hands on stores in it; what was opened is closed and removed after the test.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { openSqlite, type SqliteOptions, type SqliteStore } from "../sqlite/store.ts";
import { Hand } from "./hand.ts";
import type { Stage } from "./stage.ts";
import { HandClock } from "./stages.ts";

export interface SqliteFolder {
  /** The file of the test that runs now. */
  readonly file: string;
  openHand(options?: Partial<SqliteOptions>): Promise<Hand>;
}

export function useSqliteFolder(name: string): SqliteFolder {
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
    openHand(options = {}) {
      const store = openSqlite({ file: this.file, clock: new HandClock(), ...options });
      opened.push(store);
      return Hand.open({ handle: () => store } as unknown as Stage);
    },
  };
}
