// Keys that sign tokens: the newest one signs, older ones verify until every token they signed has expired.

export interface SigningKey {
  readonly kid: string;
  readonly secret: Uint8Array;
  /** When it began to sign, in ms of the clock that rotates the keys. */
  readonly madeAt: number;
}

/** Bounds the list if the clock jumps. */
const ringKeysMax = 8;

/** Adds a key if the newest is too old, or too far in the future (a wrong clock), and drops keys whose tokens have all expired. */
export function rotateKeys(
  keys: readonly SigningKey[],
  now: number,
  { ageMs, lifeMs, make }: { ageMs: number; lifeMs: number; make: () => Omit<SigningKey, "madeAt"> },
): readonly SigningKey[] {
  const last = keys.at(-1);
  const isDue = last === undefined || Math.abs(now - last.madeAt) >= ageMs;
  const rotated = isDue ? [...keys, { ...make(), madeAt: now }] : keys;
  const remaining = rotated.filter((_, at) => {
    const next = rotated[at + 1];
    return next === undefined || now - next.madeAt <= lifeMs;
  });
  if (!isDue && remaining.length === keys.length) return keys;
  return remaining.slice(-ringKeysMax);
}
