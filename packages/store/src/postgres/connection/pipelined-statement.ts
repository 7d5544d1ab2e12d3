// One statement with parameters, and COMMIT behind it if so wished, as a single message: the driver sends one statement at a time, and
// waiting for the answer to the first would be a round trip more. Should the first fail, the server skips what follows it.

import type { Connection, Submittable } from "pg";

/** Buffers are taken as binary. */
export type ParameterValue = string | number | Buffer | null;

export interface StatementResult {
  /** The only cell of the only row. */
  readonly cell: string | null;
  /** What the server says it did last. */
  readonly commandTag: string;
}

export class PipelinedStatement implements Submittable {
  readonly #statements: readonly { text: string; values: readonly ParameterValue[] }[];
  readonly #promise = Promise.withResolvers<StatementResult>();
  #cell: string | null = null;
  #commandTag = "";
  /** Called by the driver, which puts its time limit around it. */
  callback = (error: Error | null): void => {
    if (error === null) this.#promise.resolve({ cell: this.#cell, commandTag: this.#commandTag });
    else this.#promise.reject(error);
  };

  constructor(text: string, values: readonly ParameterValue[], isLast: boolean) {
    this.#statements = [{ text, values }, ...(isLast ? [{ text: "COMMIT", values: [] }] : [])];
  }

  get outcome(): Promise<StatementResult> {
    return this.#promise.promise;
  }

  submit(connection: Connection): void {
    connection.stream.cork();
    for (const { text, values } of this.#statements) {
      connection.parse({ name: "", text, types: [] }, true);
      connection.bind({ values: values.map((value) => (typeof value === "number" ? String(value) : value)) }, true);
      connection.execute(null, true);
    }
    connection.sync();
    connection.stream.uncork();
  }

  handleRowDescription(): void {}

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    this.#cell = fields[0] ?? null;
  }

  handleCommandComplete({ text }: { text: string }): void {
    this.#commandTag = text;
  }

  handleError(error: Error): void {
    this.callback(error);
  }

  handleReadyForQuery(): void {
    this.callback(null);
  }
}
