// The demo nodes: small, quick, honest. Each handler takes a context and returns its outputs; throwing fails the attempt.
// Plain JavaScript without imports, so that it runs wherever Node does.

export function text(ctx) {
  return { text: toText(ctx, ctx.params.text) };
}

const modes = {
  uppercase: (text) => text.toUpperCase(),
  lowercase: (text) => text.toLowerCase(),
  title: (text) => text.toLowerCase().replace(/(^|\s)\S/gu, (start) => start.toUpperCase()),
  reverse: (text) => [...text].reverse().join(""),
};

export function transform(ctx) {
  const mode = ctx.params.mode ?? "uppercase";
  if (!Object.hasOwn(modes, mode))
    throw new Error(`mode must be one of ${Object.keys(modes).join(", ")}, not ${JSON.stringify(mode)}`);
  return { text: modes[mode](toText(ctx, ctx.params.text)), mode };
}

/** One text becomes two halves, word by word, for two branches to work on. */
export function split(ctx) {
  const separator = ctx.params.separator ?? " ";
  const parts = toText(ctx, ctx.params.text).split(separator);
  const middle = Math.ceil(parts.length / 2);
  return {
    left: parts.slice(0, middle).join(separator),
    right: parts.slice(middle).join(separator),
    parts,
    count: parts.length,
  };
}

export function join(ctx) {
  const halves = [ctx.params.left, ctx.params.right].filter((half) => half !== undefined && half !== "");
  return { text: halves.map((half) => toText(ctx, half)).join(ctx.params.separator ?? " ") };
}

/** Takes its time, says how far it is, and stops at once when nobody waits any more. Hands its text on. */
export async function delay(ctx) {
  const durationMs = toNumber(ctx.params.durationMs, 1_000);
  const steps = Math.max(1, Math.min(20, Math.round(durationMs / 100)));
  for (let step = 0; step < steps; step++) {
    ctx.feedback.send({ stage: "waiting", progress: step / steps, message: `step ${step + 1} of ${steps}` });
    await pause(durationMs / steps, ctx.signal);
  }
  ctx.feedback.send({ stage: "done", progress: 1 });
  return { text: toText(ctx, ctx.params.text), waitedMs: durationMs };
}

export function count(ctx) {
  return { number: toNumber(ctx.params.number, 0) + toNumber(ctx.params.step, 1) };
}

/** Fails the first attempts, then works: what a retry policy is for. */
export function fail(ctx) {
  const times = toNumber(ctx.params.times, 1);
  if (ctx.attempt <= times) throw new Error(`attempt ${ctx.attempt} fails, as the first ${times} do`);
  return { attempts: ctx.attempt };
}

export function noop() {
  return {};
}

/** A value that was too large to travel stayed at this worker; a reference stands in its place. */
function toText(ctx, value) {
  if (value === undefined || value === null) return "";
  const isReference = typeof value === "object" && value.resourceRef !== undefined;
  return String(isReference ? ctx.resources.readJson(value.resourceRef.resourceId) : value);
}

function toNumber(value, fallback) {
  const read = value === undefined || value === null || value === "" ? fallback : Number(value);
  if (!Number.isFinite(read)) throw new Error(`${JSON.stringify(value)} is not a number`);
  return read;
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener("abort", stop, { once: true });
  });
}
