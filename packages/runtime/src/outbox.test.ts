import { describe, expect, it } from "vitest";
import { Outbox, type Word } from "./outbox.ts";

const word = (name: string, lane: Word["lane"] = "result"): Word => ({
  lane,
  type: lane === "result" ? "biz.exec.result" : "biz.exec.feedback",
  id: name,
  corr: name,
  payload: "{}",
  attempt: null,
  key: null,
});

function outbox(settings: Partial<{ bytesInFlightMax: number; feedbackWaitingMax: number }> = {}) {
  const box = new Outbox({ bytesInFlightMax: 1_000, feedbackWaitingMax: 3, ...settings });
  const pump = () => {
    const sent: string[] = [];
    box.pump((words, number) => sent.push(`${number}:${words.map((one) => one.id).join("+")}`));
    return sent;
  };
  return { box, pump };
}

describe("outbox", () => {
  it("[W6] keeps a word until it is acked, by number or by bitmap, whichever comes", () => {
    const { box, pump } = outbox();
    for (const name of ["a", "b", "c", "d"]) box.put(word(name));
    pump();

    expect(box.acked({ ack_seq: 0, ack_bitmap: 0b100 }).map((one) => one.id)).toEqual(["d", "a"]);
    box.rewind(64, 1);

    expect(pump()).toEqual(["0:b", "1:c"]);
  });

  it("[W6] reads a bitmap of more than 53 bits from hex without rounding", () => {
    const { box, pump } = outbox();
    for (let index = 0; index < 60; index++) box.put(word(`w${index}`));
    pump();

    const settled = box.acked({ ack_seq: -1, ack_bitmap: (1n << 59n).toString(16) });

    expect(settled.map((one) => one.id)).toEqual(["w59"]);
  });

  it("[W6] releases nothing for an ack of numbers that were never sent", () => {
    const { box, pump } = outbox();
    box.put(word("a"));
    pump();

    expect(box.acked({ ack_seq: 7 })).toEqual([]);
    expect(box.acked({ ack_seq: -1, ack_bitmap: 0b1000 })).toEqual([]);
    expect(box.size).toBe(1);
  });

  it("[W6] takes late and repeated acks without harm", () => {
    const { box, pump } = outbox();
    box.put(word("a"));
    box.put(word("b"));
    pump();
    box.acked({ ack_seq: 1 });

    expect(box.acked({ ack_seq: 0 })).toEqual([]);
    box.put(word("c"));

    expect(pump()).toEqual(["2:c"]);
  });

  it("[W23] lets results pass feedback that waits and keeps a quarter of the window for them", () => {
    const { box, pump } = outbox({ feedbackWaitingMax: 100 });
    box.rewind(4, 1);
    for (let index = 0; index < 5; index++) box.put(word(`f${index}`, "feedback"));
    expect(pump()).toEqual(["0:f0", "1:f1", "2:f2"]);

    box.put(word("r"));

    expect(pump()).toEqual(["3:r"]);
  });

  it("[W23] drops the oldest feedback when too much waits, never a result", () => {
    const { box } = outbox({ feedbackWaitingMax: 1 });
    for (let index = 0; index < 100; index++) expect(box.put(word(`r${index}`))).toBeUndefined();

    expect(box.put(word("f0", "feedback"))).toBeUndefined();
    expect(box.put(word("f1", "feedback"))?.id).toBe("f0");
  });

  it("[W25] packs results that wait together, and only those, as many as the session allows", () => {
    const { box, pump } = outbox();
    box.rewind(64, 3);
    for (const name of ["a", "b", "c", "d"]) box.put(word(name));
    box.put({ ...word("e"), type: "biz.exec.error" });
    for (const name of ["f", "g"]) box.put(word(name));
    for (const name of ["x", "y"]) box.put(word(name, "feedback"));

    expect(pump()).toEqual(["0:a+b+c", "1:d", "2:e", "3:f+g", "4:x", "5:y"]);
  });

  it("[W25] settles all words of a frame together, and sends all of an unacked one again", () => {
    const { box, pump } = outbox();
    box.rewind(64, 2);
    for (const name of ["a", "b", "c", "d"]) box.put(word(name));
    pump();

    expect(box.acked({ ack_seq: -1, ack_bitmap: 0b10 }).map((one) => one.id)).toEqual(["c", "d"]);
    expect(box.size).toBe(2);
    box.rewind(64, 1);

    expect(pump()).toEqual(["0:a", "1:b"]);
  });

  it("[W25] keeps large results out of one another's frame", () => {
    const { box, pump } = outbox({ bytesInFlightMax: 10_000_000 });
    const large = (name: string): Word => ({ ...word(name), payload: `"${"x".repeat(200_000)}"` });
    box.rewind(64, 64);
    for (const one of [large("a"), word("b"), large("c")]) box.put(one);

    expect(pump()).toEqual(["0:a+b", "1:c"]);
  });

  it("[W24] bounds the bytes in flight as well as the frames", () => {
    const { box, pump } = outbox({ bytesInFlightMax: 3 });
    for (const name of ["a", "b", "c"]) box.put(word(name));

    expect(pump()).toEqual(["0:a", "1:b"]);
    box.acked({ ack_seq: 0 });

    expect(pump()).toEqual(["2:c"]);
  });
});
