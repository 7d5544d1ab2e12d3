// A multipart form with a file, as a browser sends it.

export const multipartType = "multipart/form-data; boundary=b";
export function multipartForm(
  body: string | Buffer,
  fields: Readonly<Record<string, string>> = {},
  filename = "a.txt",
): AsyncIterable<Buffer> {
  const parts = Object.entries(fields).map(
    ([name, value]) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const head = `--b\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\nContent-Type: text/plain\r\n\r\n`;
  return (async function* () {
    yield Buffer.concat([Buffer.from(parts.join("") + head), Buffer.from(body), Buffer.from("\r\n--b--\r\n")]);
  })();
}
