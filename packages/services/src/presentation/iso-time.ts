// Times as the API shows them.

export const isoTime = (ms: number): string => new Date(ms).toISOString();
