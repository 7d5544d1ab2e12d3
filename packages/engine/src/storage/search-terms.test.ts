import { describe, expect, it } from "vitest";
import { sampleRun } from "../testing/sample-rows.ts";
import { hasSameSearchTerms, matchesAllWords, runSearchTerms, searchWords } from "./search-terms.ts";

const run = sampleRun("018bcfe5-6800-7001-8000-0000000000ff", {
  phase: "failed",
  client: "console",
  open: 0,
  label: "Nightly REPORT, Ähren",
  source: "wf-1",
  about: '{"by":"ann@example","version":7,"labels":{"team":"blue","no":42}}',
});

describe("words", () => {
  it("[S85] searchWords splits a text at every ASCII character that is neither letter nor digit, in lower case", () => {
    expect(searchWords("E.TASK-Failed: node_7 (Über\u2014alles)\n\0x")).toEqual([
      "e",
      "task",
      "failed",
      "node",
      "7",
      "über\u2014alles",
      "x",
    ]);
    expect(searchWords(" .,-%'\"\\ ")).toEqual([]);
  });

  it("[S85] searchWords truncates long words, never inside a character, and a truncated word is still found", () => {
    const long = `${"x".repeat(63)}\u{1f600}\u{1f600}`;

    expect(searchWords(long)).toEqual(["x".repeat(63)]);
    expect(searchWords("y".repeat(999))).toEqual(["y".repeat(64)]);
    expect(matchesAllWords(searchWords(`a ${"y".repeat(999)}`), searchWords("y".repeat(500)))).toBe(true);
  });

  it("[S85] a run's search terms are its id, name, client, starter, label values and error", () => {
    expect(runSearchTerms(run).split(" ")).toEqual([
      ...["018bcfe5", "6800", "7001", "8000", "0000000000ff", "nightly", "report", "ähren", "console", "ann", "example"],
      ...["blue", "42"],
    ]);
    const failed = { ...run, error: '{"code":"E.LOST","message":"worker gone","details":{"secret":1}}' };
    expect(runSearchTerms(failed).endsWith("blue 42 e lost worker gone")).toBe(true);
    expect([hasSameSearchTerms(run, failed), hasSameSearchTerms(run, { ...run, open: 3 })]).toEqual([false, true]);
  });

  it("[S85] a run's search terms ignore fields that are not JSON, and are limited in number", () => {
    expect(runSearchTerms({ ...run, label: "", about: "broken", error: "x" })).toBe(
      "018bcfe5 6800 7001 8000 0000000000ff console",
    );
    const message = Array.from({ length: 500 }, (_, at) => `w${at}`).join(" ");
    expect(runSearchTerms({ ...run, error: JSON.stringify({ message }) }).split(" ")).toHaveLength(96);
  });

  it("[S85] a search matches only when every word is a prefix of one of the terms", () => {
    expect(matchesAllWords(["nightly", "report"], ["rep", "night"])).toBe(true);
    expect(matchesAllWords(["nightly", "report"], ["port"])).toBe(false);
    expect(matchesAllWords(["nightly"], [])).toBe(true);
  });
});
