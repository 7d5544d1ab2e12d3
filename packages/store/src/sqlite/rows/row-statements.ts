// Prepared inserts and updates of rows. An update names only the columns that changed: it binds less, and leaves the indexes of other columns
// alone. Rows change in few ways, so there are few such statements.

import type { StatementSync } from "node:sqlite";
import type { RowKind } from "../../common/row-shape.ts";
import type { SqliteConnection } from "../file/connection.ts";
import { insertSql, updateSql } from "./columns.ts";

const updatesMax = 128;

export class RowStatements {
  readonly #connection: SqliteConnection;
  readonly #inserts = new Map<RowKind, StatementSync>();
  readonly #updates = new Map<RowKind, Map<number, StatementSync>>();

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  insert(kind: RowKind): StatementSync {
    let statement = this.#inserts.get(kind);
    if (statement === undefined) {
      statement = this.#connection.prepare(insertSql(kind));
      this.#inserts.set(kind, statement);
    }
    return statement;
  }

  update(kind: RowKind, mask: number): StatementSync {
    let updates = this.#updates.get(kind);
    if (updates === undefined) {
      updates = new Map();
      this.#updates.set(kind, updates);
    }
    let statement = updates.get(mask);
    if (statement === undefined) {
      if (updates.size >= updatesMax) updates.clear();
      statement = this.#connection.db.prepare(updateSql(kind, mask));
      updates.set(mask, statement);
    }
    return statement;
  }
}
