/** Server-sent events over a web stream: chunks in order, an error as its last event, and the client's leaving as an abort. */
import { toApiError } from "./errors.ts";

interface EventStreamOptions {
  readonly headers: Readonly<Record<string, string>>;
  /** The client has gone, or does not read. */
  readonly onCancel: () => void;
}

/** Chunks that a client may leave unread before it counts as gone; every answer is bounded, so this is far above any of them. */
const maxUnread = 100_000;

/** Answers with what `write` sends, then `[DONE]`. An error of `write` is sent in OpenAI's form and ends the stream. */
export function eventStream(write: (send: (data: unknown) => void) => Promise<void>, { headers, onCancel }: EventStreamOptions): Response {
  const encoder = new TextEncoder();
  let open = true;
  const body = new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        const send = (data: unknown): void => {
          if (!open) return;
          controller.enqueue(encoder.encode(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`));
          if ((controller.desiredSize ?? 0) < -maxUnread) onCancel();
        };
        const end = (last: unknown): void => {
          send(last);
          if (open) controller.close();
          open = false;
        };
        write(send).then(
          () => end("[DONE]"),
          (cause: unknown) => end(toApiError(cause).body),
        );
      },
      cancel: () => {
        open = false;
        onCancel();
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers: { ...headers, "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" } });
}
