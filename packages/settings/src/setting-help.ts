// The list of settings that a program's --help shows: flag and variable, what it means, its values, its unit and its default.

import { flagsOf, type SettingRow, type SettingTable, variableOf } from "./setting-table.ts";

const lineCharsMax = 100;
const indent = "      ";

/** Two lines or more for each setting that has an effect. */
export function formatSettingsHelp(table: SettingTable<never>, prefix: string): string[] {
  return Object.entries<SettingRow<never>>(table)
    .filter(([, row]) => row.ignoredBecause === undefined)
    .flatMap(([key, row]) => {
      const valueName = valueNameOf(key, row);
      const flag = `${flagsOf(key, row)[0] ?? ""}${valueName === null ? "" : ` ${valueName}`}`;
      return [`  ${flag}, ${variableOf(prefix, key)}`, ...wrapText(`${row.help}${describeValues(row, valueName)}`)];
    });
}

/** By default from the end of the key, which names the unit. */
function valueNameOf(key: string, { valueName, choices }: SettingRow<never>): string | null {
  if (valueName !== undefined) return valueName;
  if (choices !== undefined) return "WORD";
  const [unit = "VALUE"] = /(?<=_)(SECONDS|BYTES|MS|MB|DIR)$/.exec(key) ?? [];
  return unit === "MB" ? "MIB" : unit;
}

function describeValues(row: SettingRow<never>, valueName: string | null): string {
  const isNamed = row.choices?.every((choice) => row.help.includes(choice)) ?? true;
  const parts = [
    isNamed ? "" : `one of ${row.choices?.join(", ")}`,
    /\bdefault\b/.test(row.help) ? "" : describeDefault(row.default, valueName),
  ].filter((part) => part !== "");
  return parts.length === 0 ? "" : ` (${parts.join("; ")})`;
}

/** Empty where there is none, or where it goes without saying: a switch that is off, a list without items. */
function describeDefault(value: unknown, valueName: string | null): string {
  if (value === undefined || value === null || value === false || value === "") return "";
  if (Array.isArray(value)) return value.length === 0 ? "" : `default ${value.join(",")}`;
  if (typeof value === "object" && "host" in value && "port" in value)
    return `default ${String(value.host)}:${String(value.port)}`;
  if (valueName === "AGE") return `default ${describeSpan(Number(value)).replace(" ", "")}`;
  if (valueName === "MS" && Number(value) >= 1_000) return `default ${String(value)}, which is ${describeSpan(Number(value))}`;
  if (valueName === "BYTES") return `default ${String(value)}, which is ${describeBytes(Number(value))}`;
  return `default ${String(value)}`;
}

const spans = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** In the largest unit that it is a whole number of. */
function describeSpan(ms: number): string {
  const [unit, size] = spans.find(([, one]) => ms >= one && ms % one === 0) ?? ["ms", 1];
  return `${ms / size} ${unit}`;
}

const describeBytes = (bytes: number): string =>
  bytes >= 1_024 ** 3 ? `${bytes / 1_024 ** 3} GiB` : bytes >= 1_024 ** 2 ? `${bytes / 1_024 ** 2} MiB` : `${bytes / 1_024} KiB`;

function wrapText(text: string): string[] {
  const lines: string[] = [];
  let last = indent;
  for (const word of text.split(" ")) {
    if (last !== indent && last.length + 1 + word.length > lineCharsMax) {
      lines.push(last);
      last = indent;
    }
    last += last === indent ? word : ` ${word}`;
  }
  return [...lines, last];
}
