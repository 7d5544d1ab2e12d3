import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildBitmap } from "./bitmap.ts";
import { ReceiveWindowModel } from "./testing/receive-window-model.ts";
import { SendWindowModel } from "./testing/send-window-model.ts";
import { command, frame, labelsOf, openStream, type TestItem, type TestStream, takeAllFrames } from "./testing/stream-fixture.ts";

const windows = fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 1_024 }));
const bytes = fc.integer({ min: 1, max: 60 });

/** What the stream did, and what the model did. */
type Pair = readonly [got: unknown, wanted: unknown];
type SendAct = (stream: TestStream, model: SendWindowModel) => Pair;
type ReceiveAct = (stream: TestStream, model: ReceiveWindowModel) => Pair;
const same: Pair = [null, null];

const offer = fc
  .record({
    many: fc.integer({ min: 1, max: 300 }),
    lane: fc.constantFrom("command" as const, "feedback" as const),
    bytes,
    batch: fc.constantFrom(null, "w", "v"),
  })
  .map(
    ({ many, ...overrides }): SendAct =>
      (stream, model) => {
        const base = model.base + model.inFlight.length + model.waiting.length;
        for (let at = 0; at < many; at += 1) {
          const item = command(`${base + at}`, overrides);
          model.waiting.push(item);
          stream.enqueue(item);
        }
        return same;
      },
  );

const ack = fc
  .record({ ahead: fc.integer({ min: -3, max: 400 }), bits: fc.uniqueArray(fc.nat(1_100), { maxLength: 6 }), window: windows })
  .chain((wild) => fc.boolean().map((isNear) => ({ ...wild, isNear })))
  .map(
    ({ ahead, bits, window, isNear }): SendAct =>
      (stream, model) => {
        // Near ones are acks that an honest peer could send; the others mostly name what was never sent.
        const among = isNear ? model.inFlight.length + 1 : 2_000;
        const ackSeq = Math.max(-1, model.base + (ahead % among));
        const ackBits = bits.map((bit) => bit % among);
        const peerAck = { ack_seq: ackSeq, ack_bitmap: buildBitmap(-1, new Set(ackBits)), recv_window: window };
        return [labelsOf(stream.handleAck(peerAck, undefined)), labelsOf(model.ack(ackSeq, ackBits, window))];
      },
  );

const withdraw = fc.nat(4).map(
  (rest): SendAct =>
    (stream, model) => {
      const isUnwanted = ({ label }: TestItem) => Number(label) % 5 === rest;
      stream.withdraw(isUnwanted);
      model.withdraw(isUnwanted);
      return same;
    },
);

const resume = fc.nat(3).map(
  (ahead): SendAct =>
    (stream, model) => {
      const saw = model.base + Math.min(ahead, model.inFlight.length);
      stream.pause();
      const again = stream.resume(saw, 0);
      return [again === "unsent" ? again : again.map(shown), model.inFlight.filter(({ number }) => number > saw).map(shown)];
    },
);

const shown = ({ number, items }: { number: number | undefined; items: readonly TestItem[] }) =>
  `${number}: ${String(labelsOf(items))}`;

const nothing = { number: -1, items: [] };

const arrive = (stream: TestStream, model: ReceiveWindowModel, number: number, weight: number): Pair => {
  const { verdict, deliver } = stream.receive(frame(number, { bytes: weight }), "item", 0);
  return [{ verdict, numbers: deliver.map(({ tag }) => tag.number) }, model.receive({ number, bytes: weight })];
};

const arriveNear = (max: number) =>
  fc.record({ ahead: fc.integer({ min: -3, max }), bytes }).map(
    ({ ahead, bytes: weight }): ReceiveAct =>
      (stream, model) =>
        arrive(stream, model, Math.max(0, model.ackSeq + ahead), weight),
  );

const fill = fc.integer({ min: 1, max: 300 }).map(
  (many): ReceiveAct =>
    (stream, model) => {
      const pairs = Array.from({ length: many }, () => arrive(stream, model, model.delivered.size, 10));
      return [pairs.map(([got]) => got), pairs.map(([, wanted]) => wanted)];
    },
);

const settle = fc.record({ many: fc.integer({ min: 1, max: 200 }), pick: fc.nat(2_000) }).map(
  ({ many, pick }): ReceiveAct =>
    (stream, model) => {
      for (let at = 0; at < many; at += 1) {
        const open = [...model.delivered].filter((number) => !model.settled.has(number));
        const number = open[pick % open.length];
        if (number === undefined) break;
        model.settled.add(number);
        stream.settle({ number, id: "any", isAsked: false, bytes: 0 });
      }
      return same;
    },
);

describe("a stream and a model of it", () => {
  it("[N24] a stream sends the same frames under the same numbers as its model, whatever is enqueued, acked, withdrawn and resumed", () => {
    const act = fc.oneof({ weight: 4, arbitrary: offer }, { weight: 6, arbitrary: ack }, withdraw, resume);
    const shape = fc.record({
      frames: windows,
      bytes: fc.integer({ min: 1, max: 20_000 }),
      batch: fc.integer({ min: 1, max: 5 }),
    });
    fc.assert(
      fc.property(shape, fc.array(act, { maxLength: 40 }), (sizes, acts) => {
        const model = new SendWindowModel(sizes);
        const stream = openStream({ sendFrames: sizes.frames, sendBytes: sizes.bytes, batchMax: sizes.batch });
        for (const play of acts) {
          const [got, wanted] = play(stream, model);

          expect(got).toEqual(wanted);
          for (const sent of takeAllFrames(stream)) expect(shown(sent)).toBe(shown(model.take() ?? nothing));
          expect(model.take()).toBeNull();
          expect(stream.counts).toMatchObject({ inFlight: model.inFlight.length, inFlightBytes: model.bytes });
          expect(stream.counts.waiting).toBe(model.waiting.length);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("[N24] a stream receives the same frames in the same order as its model and acks exactly the same numbers, at any window", () => {
    const act = fc.oneof(arriveNear(6), arriveNear(1_100), fill, settle);
    fc.assert(
      fc.property(windows, fc.integer({ min: 1, max: 2_000 }), fc.array(act, { maxLength: 60 }), (frames, bytesMax, acts) => {
        const model = new ReceiveWindowModel(frames, bytesMax);
        const stream = openStream({ recvFrames: frames, recvBytes: bytesMax });
        for (const play of acts) {
          const [got, wanted] = play(stream, model);

          expect(got).toEqual(wanted);
          const { ack_seq, ack_bitmap = 0 } = stream.buildWindowAck(undefined);
          expect(ack_seq).toBe(model.ackSeq);
          expect(BigInt(typeof ack_bitmap === "string" ? `0x${ack_bitmap}` : ack_bitmap)).toBe(model.bitmap);
          expect(stream.lastSeen).toBe(model.delivered.size - 1);
          expect(stream.counts).toMatchObject({ buffered: model.held.length, bufferedBytes: model.heldBytes });
        }
      }),
      { numRuns: 500 },
    );
  });
});
