import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { crc32c, encodeJournal, encodeRecord, type JournalEntry, type JournaledOutcome, readJournal } from "./outbox-journal.ts";

const word = (key: number, text = "x", fence = 7): JournaledOutcome => ({
  key,
  type: "biz.exec.result",
  id: `b1-${key}`,
  run: "r",
  task: `t${key}`,
  node: "n",
  fence,
  payload: JSON.stringify({ task_id: `t${key}`, result: { text } }),
});

const write = (...entries: JournalEntry[]): Buffer => Buffer.concat(entries.map((entry, number) => encodeRecord(number, entry)));
const keep = (...words: JournaledOutcome[]): JournalEntry => ({ outcomes: words, ackedKeys: [] });
const ack = (...acked: number[]): JournalEntry => ({ outcomes: [], ackedKeys: acked });

/** Outcomes of any text, acked or not, in any grouping. */
const entries = fc
  .array(fc.record({ texts: fc.array(fc.string({ unit: "binary" }), { maxLength: 3 }), acks: fc.integer({ min: 0, max: 2 }) }), {
    minLength: 1,
    maxLength: 6,
  })
  .map((plan) => {
    let key = 0;
    let acked = 0;
    return plan.map(({ texts, acks }): JournalEntry => {
      const words = texts.map((text) => word(key++, text));
      const done = Array.from({ length: Math.min(acks, key - acked) }, () => acked++);
      return { outcomes: words, ackedKeys: done };
    });
  });

const livingOf = (list: readonly JournalEntry[]): JournaledOutcome[] => {
  const acked = new Set(list.flatMap((entry) => entry.ackedKeys));
  return list.flatMap((entry) => entry.outcomes).filter(({ key }) => !acked.has(key));
};

describe("the outbox as bytes", () => {
  it("[W70] the outbox journal's checksum gives the check value of the standard's example", () => {
    expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
    expect(crc32c(Buffer.from("6789"), crc32c(Buffer.from("12345")))).toBe(0xe3069283);
  });

  it("[W70] the outbox journal gives back every outcome that was not acked, in order, with its text unchanged", () => {
    fc.assert(
      fc.property(entries, (list) => {
        const file = write(...list);

        expect(readJournal(file)).toMatchObject({
          outcome: "clean",
          outcomes: livingOf(list),
          records: list.length,
          bytes: file.length,
        });
        expect(readJournal(encodeJournal(livingOf(list)).bytes)).toMatchObject({ outcome: "clean", outcomes: livingOf(list) });
      }),
    );
  });

  it("[W71] an outbox journal that is cut at any byte loses the record that was cut and no other", () => {
    fc.assert(
      fc.property(entries, (list) => {
        const file = write(...list);
        const ends = list.map((_, index) => write(...list.slice(0, index + 1)).length);
        for (let cut = 0; cut < file.length; cut++) {
          const whole = ends.filter((end) => end <= cut).length;

          expect(readJournal(file.subarray(0, cut))).toMatchObject({
            outcome: cut === (ends[whole - 1] ?? 0) ? "clean" : "torn",
            outcomes: livingOf(list.slice(0, whole)),
            records: whole,
            bytes: ends[whole - 1] ?? 0,
          });
        }
      }),
      { numRuns: 20 },
    );
  });

  it("[W72] the outbox journal detects every flipped bit: as damage before the last record, as a torn end in the last one", () => {
    const list = [keep(word(0), word(1, "zwei")), ack(0), keep(word(2, "\u0000\n€")), ack(1)];
    const file = write(...list);
    const lastAt = write(...list.slice(0, 3)).length;
    for (let bit = 0; bit < file.length * 8; bit++) {
      const harmed = Buffer.from(file);
      harmed[bit >> 3] = (harmed[bit >> 3] as number) ^ (1 << (bit & 7));

      const isLast = bit >> 3 >= lastAt;
      const expected = isLast ? { outcome: "torn", outcomes: livingOf(list.slice(0, 3)), bytes: lastAt } : { outcome: "damaged" };
      expect({ bit, ...readJournal(harmed) }).toMatchObject({ bit, ...expected });
    }
  });

  it("[W72] the outbox journal treats a missing, repeated or misplaced record as damage, and noise at the end as a torn write", () => {
    const [first, second, third] = [0, 1, 2].map((number) => encodeRecord(number, keep(word(number)))) as [
      Uint8Array,
      Uint8Array,
      Uint8Array,
    ];

    expect(readJournal(Buffer.concat([first, third])).outcome).toBe("damaged");
    expect(readJournal(Buffer.concat([second, third])).outcome).toBe("damaged");
    expect(readJournal(Buffer.concat([first, first, second])).outcome).toBe("damaged");
    expect(readJournal(Buffer.concat([first, second, second])).outcome).toBe("damaged");
    for (const noise of [Buffer.alloc(5_000), Buffer.alloc(5_000, 0xff), Buffer.alloc(5_000, 1)]) {
      expect(readJournal(Buffer.concat([first, noise]))).toMatchObject({ outcome: "torn", bytes: first.length });
    }
  });

  it("[W72] the outbox journal refuses a record that is intact but has unknown content", () => {
    const file = Buffer.from(encodeRecord(0, keep(word(0))));
    const strange = file.toString("latin1").replace('"acked"', '"other"');
    const rewritten = Buffer.from(strange, "latin1");
    rewritten.writeUInt32LE(crc32c(rewritten.subarray(15), crc32c(rewritten.subarray(0, 11))), 11);

    expect(readJournal(rewritten)).toMatchObject({ outcome: "damaged", at: 0 });
  });
});
