// Reads outside a turn, on a read-only connection, maybe in another process. Every answer is one snapshot: page and position belong together.

import type { EventPage, EventQuery, PageOf, PageQuery, Position, StoreReader, Tenant } from "@astraflow/engine";
import { cutLogPage, decodeLogRows } from "../../common/log-rows.ts";
import { hasHead, readHeadlessPage, searchScannedRowsMax } from "../../common/page-filters.ts";
import { openDatabase, SqliteConnection } from "../file/connection.ts";
import { readLogRows } from "../search/subject-history.ts";
import { pageReaders } from "./pages.ts";

const busyMs = 2_000;

export class SqliteReader implements StoreReader {
  readonly #connection: SqliteConnection;
  readonly #searchedRows: number;

  constructor({ file, searchedRows = searchScannedRowsMax }: { file: string; searchedRows?: number }) {
    this.#connection = new SqliteConnection(openDatabase(file, { readOnly: true, busyMs }));
    this.#searchedRows = searchedRows;
  }

  async events(query: EventQuery): Promise<EventPage> {
    return this.#inSnapshot(() => {
      const { position, floor, removed, indexed } = this.#readTenant(query.tenant);
      const rows = readLogRows(this.#connection, query, indexed);
      return cutLogPage(decodeLogRows(query.tenant, rows), query, { head: position, floor, removed });
    });
  }

  async page<Q extends PageQuery>(query: Q): Promise<PageOf<Q>> {
    return this.#inSnapshot(() => {
      const page = readHeadlessPage(pageReaders, query, this.#connection, this.#searchedRows);
      return (hasHead(query) ? { ...page, head: this.#readTenant(query.tenant).position } : page) as PageOf<Q>;
    });
  }

  async close(): Promise<void> {
    this.#connection.db.close();
  }

  #readTenant(tenant: Tenant): { position: Position; floor: Position; removed: Position; indexed: Position } {
    const cells = this.#connection.get("SELECT position, floor, removed, indexed FROM tenant WHERE id = ?", tenant);
    const [position, floor, removed, indexed] = (cells ?? [0, 0, 0, 0]).map(Number) as [number, number, number, number];
    return { position, floor, removed, indexed };
  }

  #inSnapshot<T>(read: () => T): T {
    const { db } = this.#connection;
    db.exec("BEGIN");
    try {
      return read();
    } finally {
      db.exec("COMMIT");
    }
  }
}
