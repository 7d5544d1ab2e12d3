// JSON columns, parsed once per row object. Rows never change, so what was parsed stays true.

/** A reader of one column: `empty` where it is null. `remember` is for a writer that has the value at hand. */
export function parsedColumn<Row extends object, Value extends object>(
  text: (row: Row) => string | null,
  empty: Value,
  parse: (text: string) => Value = (json) => JSON.parse(json) as Value,
): { read(row: Row): Value; remember(row: Row, value: Value): void } {
  const parsed = new WeakMap<Row, Value>();
  return {
    read(row) {
      const json = text(row);
      if (json === null) return empty;
      let value = parsed.get(row);
      if (value === undefined) parsed.set(row, (value = parse(json)));
      return value;
    },
    remember(row, value) {
      parsed.set(row, value);
    },
  };
}
