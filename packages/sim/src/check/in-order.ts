// I19: what an end's upper layer acts on is a prefix, without gaps and without repeats, of what the other end sent in that session. Seen from
// outside: numbers are used one after the other and mean the same for ever; a handler that starts and a word that shows in the log came in a
// frame before which nothing is missing; a piece of feedback that was stored was delivered, and is stored once however often it came.

import type { ChunkPage } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import type { Fact } from "./log-book.ts";
import { type Way, Ways } from "./ways.ts";
import { dispatchesIn, itemsIn, type WireFrame, wordsIn } from "./wire.ts";

interface Place {
  readonly way: Way;
  readonly seq: number;
}

/** Facts that only the words of a worker can bring about. */
const ends: Readonly<Record<string, string>> = { "task.succeeded": "SUCCEEDED", "task.skipped": "SKIPPED" };

export function inOrder({ fail, lives, scene }: Bench): Checker {
  const ways = new Ways();
  /** Where a dispatch arrived, by boot and `<task>#<fence>`; where a result did, by `<status> <task>#<fence>`. */
  const arrived = new Map<string, Place[]>();
  /** Pieces of feedback that were delivered, as `<task>#<fence> "<text>"`; and those that a reading of the store has shown. */
  const pieces = new Set<string>();
  /** Frames of feedback that were delivered, and words of it that the log tells, by `<task>#<fence>`. */
  const spoken = new Map<string, { readonly frames: Set<string>; told: number }>();
  /** The first generation uses up numbers without sending them. */
  const burning = new Set<string>();
  let saw = 0;

  const judgeNumber = (frame: WireFrame, seq: number): void => {
    const way = ways.of(frame);
    const about = [frame.seen.worker, frame.seen.connection];
    const items = itemsIn(frame);
    const before = way.sent.get(seq);
    saw++;
    if (before === undefined) {
      if (way.sent.size > 0 && seq !== way.last + 1 && !burning.has(way.name))
        fail(`${way.name}: ${seq} was sent after ${way.last}`, about);
      return;
    }
    // Dispatches that were taken back are missing in a repeat; nothing is ever added.
    const added = items.find((item) => !before.includes(item));
    if (added !== undefined && !burning.has(way.name))
      fail(`${way.name}: ${seq} was ${before.join(", ") || "empty"} and is now ${added}`, [...about, ...namesIn(before)]);
  };

  const note = (name: string, place: Place): void => {
    const places = arrived.get(name) ?? [];
    places.push(place);
    arrived.set(name, places);
  };

  const hearArrival = (frame: WireFrame, seq: number | null): void => {
    const { seen, stream } = frame;
    const place = { way: ways.of(frame), seq: seq ?? Number.NEGATIVE_INFINITY };
    for (const { task, fence } of dispatchesIn(frame)) note(`${seen.boot} ${task}#${fence}`, place);
    for (const { of, says, task, fence } of wordsIn(frame)) if (of === "result") note(`${says} ${task}#${fence}`, place);
    for (const piece of piecesIn(frame)) pieces.add(piece);
    for (const { of, task, fence } of wordsIn(frame))
      if (of === "feedback") spokenOf(task, fence).frames.add(seq === null ? `frame ${seen.frame}` : `${stream} ${seq}`);
  };

  const spokenOf = (task: string, fence: unknown): { readonly frames: Set<string>; told: number } => {
    const name = `${task}#${String(fence)}`;
    const one = spoken.get(name) ?? { frames: new Set<string>(), told: 0 };
    spoken.set(name, one);
    return one;
  };

  const judgeTold = ({ data, position, tenant }: Fact): void => {
    const task = String(data["task"]);
    if (scene.isOlder(lives.task(task)?.worker ?? "")) return;
    const one = spokenOf(task, data["fence"]);
    saw++;
    if (++one.told > one.frames.size)
      fail(
        `position ${position} of ${tenant} is the ${one.told}. word of feedback of ${task}#${String(data["fence"])}, of which ` +
          `${one.frames.size} came`,
        [task],
      );
  };

  /** What it came in had nothing missing before it. */
  const isWhole = ({ way, seq }: Place): boolean => seq <= way.upTo;

  const judgeCause = (name: string, what: string, about: readonly string[]): void => {
    const places = arrived.get(name) ?? [];
    saw++;
    if (places.length === 0) return fail(`${what}, and no frame that says so has arrived`, about);
    if (places.some(isWhole)) return;
    const [{ way, seq } = { way: null, seq: 0 }] = places;
    fail(`${what} by frame ${seq} of ${way?.name}, of which everything is there only up to ${way?.upTo}`, about);
  };

  /** One reading of what an attempt printed: every piece came, and none is there twice. */
  const judgePrinted = (task: string, fence: number, { items }: ChunkPage): void => {
    if (scene.isOlder(lives.grants.get(`${task}#${fence}`)?.worker ?? "")) return;
    const shown = new Set<string>();
    for (const piece of items.flatMap(({ chunks }) => chunksOf(task, fence, chunks))) {
      saw++;
      if (!pieces.has(piece)) return fail(`feedback is stored that never came: ${piece}`, [task]);
      if (shown.has(piece)) return fail(`feedback is stored for the 2. time: ${piece}`, [task]);
      shown.add(piece);
    }
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if (seen.kind === "link" && seen.event === "dialled") ways.dialled(seen.boot, seen.connection);
      if (seen.kind !== "handler" || seen.event !== "starts") return;
      const grant = `${seen.task}#${seen.fence}`;
      judgeCause(`${seen.boot} ${grant}`, `${seen.worker} started ${grant}`, [seen.task, seen.worker]);
    },
    frame(frame) {
      const { seen, seq, type, payload } = frame;
      if (type === "control.handshake" && payload["protocol"] === 1) burning.add(seen.instance);
      if (seq !== null && seen.event === "sent") {
        if (seen.toward === "scheduler" && burning.has(seen.instance)) burning.add(ways.of(frame).name);
        judgeNumber(frame, seq);
      }
      ways.hear(frame);
      if (seen.event === "delivered" && ways.counts(frame)) hearArrival(frame, seq);
    },
    exchange({ call, answer }) {
      if (call.route === "readChunks" && answer.status === 200)
        judgePrinted(call.params["task"] ?? "", Number(call.params["fence"]), answer.body as ChunkPage);
    },
    fact(fact) {
      const { type, data, position, tenant } = fact;
      if (type === "task.feedback") return judgeTold(fact);
      const status = ends[type];
      if (status === undefined || data["worker"] === null || data["why"] !== undefined) return;
      const name = `${status} ${String(data["task"])}#${Number(data["fence"])}`;
      // Without fences it may have been said of an earlier dispatch of the same task.
      if (scene.isOlder(String(data["worker"]))) return;
      judgeCause(name, `position ${position} of ${tenant} tells of ${name}`, [String(data["task"])]);
    },
  };
}

const namesIn = (items: readonly string[]): string[] => items.map((item) => item.split(" ").at(-1)?.split("#")[0] ?? "");

function piecesIn({ type, payload }: WireFrame): string[] {
  return type === "biz.exec.feedback" ? chunksOf(String(payload["task_id"]), payload["fence"], payload["chunks"]) : [];
}

function chunksOf(task: string, fence: unknown, chunks: unknown): string[] {
  if (!Array.isArray(chunks)) return [];
  return chunks.map((chunk: { readonly text?: string }) => `${task}#${String(fence)} "${chunk.text}"`);
}
