// Fields of answers: left out where there is nothing to say, and times as text.

/** The fields that have a value. */
export const definedFields = <T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;

export const isoTime = (ms: number): string => new Date(ms).toISOString();
