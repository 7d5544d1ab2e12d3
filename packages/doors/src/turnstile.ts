// So much of one kind of work at a time, whoever asks: what is dear must not take the house from everybody else.

/** Lets so many work at a time; the rest in the order they came. */
export function createTurnstile(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let working = 0;
  return async (work) => {
    if (working >= max) await new Promise<void>((go) => waiting.push(go));
    else working += 1;
    try {
      return await work();
    } finally {
      // Whoever waits takes the place over, so that nobody slips in between.
      const next = waiting.shift();
      if (next === undefined) working -= 1;
      else next();
    }
  };
}
