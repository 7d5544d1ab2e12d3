// One value of one setting: text from the environment or the command line, or a JSON value from a file, read as the table says.

import type { WorkerSetting } from "./setting-table.ts";

/** `problem` completes the sentence "<where> ...". Values are not repeated in it: one of them is a secret. */
export type SettingReadResult = { readonly value: unknown } | { readonly problem: string };

export function readSetting(setting: WorkerSetting, given: unknown): SettingReadResult {
  const { reading } = setting;
  switch (reading.as) {
    case "text":
      if (typeof given !== "string" || given === "") return { problem: "must be a text that is not empty" };
      return reading.pattern?.test(given) === false ? { problem: `must be ${reading.expected}` } : { value: given };
    case "urls":
      return readUrls(given);
    case "listen":
      return readListen(given);
    case "whole":
    case "number": {
      const number = typeof given === "string" && given.trim() !== "" ? Number(given) : given;
      const isFit = typeof number === "number" && number >= reading.min && number <= reading.max;
      const isWhole = reading.as === "number" || Number.isInteger(number);
      const kind = reading.as === "whole" ? "a whole number" : "a number";
      return isFit && isWhole ? { value: number } : { problem: `must be ${kind} from ${reading.min} to ${reading.max}` };
    }
    case "yes-no":
      return readBoolean(given);
    case "one-of": {
      const word = typeof given === "string" ? given.toLowerCase() : "";
      return reading.words.includes(word) ? { value: word } : { problem: `must be one of ${reading.words.join(", ")}` };
    }
    case "words":
      return readList(given);
    case "limits":
      return readMap(given, (value) => Number.isInteger(value) && (value as number) > 0, "whole numbers above 0");
    case "tags":
      return readMap(given, (value) => typeof value === "string", "texts");
  }
}

function readUrls(given: unknown): SettingReadResult {
  const texts = typeof given === "string" ? given.split(",").map((text) => text.trim()) : given;
  if (!Array.isArray(texts) || texts.length === 0) return { problem: urlProblem };
  const problem = texts.map(validateUrl).find((one) => one !== null);
  return problem === undefined ? { value: texts } : { problem };
}

const urlProblem = "must be an address that begins with ws:// or wss://";

function validateUrl(text: unknown): string | null {
  const url = typeof text === "string" ? URL.parse(text) : null;
  if (url === null || (url.protocol !== "ws:" && url.protocol !== "wss:")) return urlProblem;
  if (url.hash !== "") return "must not have a fragment (#...)";
  if (url.username !== "" || url.password !== "") return "must not carry a user or password; the token has its own setting";
  return null;
}

function readListen(given: unknown): SettingReadResult {
  const [, host = "", port = ""] = typeof given === "string" ? (/^(.+):(\d{1,5})$/.exec(given.trim()) ?? []) : [];
  if (host === "" || Number(port) > 65_535) return { problem: "must be HOST:PORT, such as 127.0.0.1:9464 or [::1]:0" };
  return { value: { host: host.replace(/^\[(.*)\]$/, "$1"), port: Number(port) } };
}

function readBoolean(given: unknown): SettingReadResult {
  const word = typeof given === "string" ? given.toLowerCase() : given;
  if (word === true || word === "true" || word === "1" || word === "yes") return { value: true };
  if (word === false || word === "false" || word === "0" || word === "no") return { value: false };
  return { problem: "must be true or false" };
}

function readList(given: unknown): SettingReadResult {
  const isJson = typeof given === "string" && given.trim().startsWith("[");
  const list = isJson ? parseJson(given) : typeof given === "string" ? given.split(",").map((word) => word.trim()) : given;
  const isFit = Array.isArray(list) && list.every((word) => typeof word === "string" && word !== "" && word.length <= 256);
  return isFit ? { value: list } : { problem: 'must be a list of words: ["a","b"] or a,b' };
}

function readMap(given: unknown, isFit: (value: unknown) => boolean, what: string): SettingReadResult {
  const map = typeof given === "string" ? parseJson(given) : given;
  const problem = { problem: `must be a JSON object whose values are ${what}` };
  if (typeof map !== "object" || map === null || Array.isArray(map)) return problem;
  return Object.values(map).every(isFit) ? { value: map } : problem;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON is not a list and not a map: the caller says what it should have been.
    return undefined;
  }
}
