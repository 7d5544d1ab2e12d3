// Which addresses only this machine reaches.

/** By its spelling alone: a name that has to be resolved may be anything tomorrow. */
export const isLoopbackHost = (host: string): boolean => /^(localhost|::1|\[::1\]|127(\.\d{1,3}){3})$/.test(host);
