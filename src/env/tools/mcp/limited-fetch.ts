/** `fetch`, whose answers end with an error when they get too long: a body is read whole by those who call it. */
const BODY_BYTES = 4 * 1024 * 1024;

export async function limitedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  // The stream of a GET brings messages for as long as the session lasts.
  if (response.body === null || init?.method === "GET") return response;
  let bytes = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > BODY_BYTES) controller.error(new Error(`an answer of more than ${BODY_BYTES} bytes`));
      else controller.enqueue(chunk);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(counted), { status, statusText, headers });
}
