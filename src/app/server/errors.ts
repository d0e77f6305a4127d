/** Errors as OpenAI's clients read them: a status, and a body with message, type, param and code. */
import { FlywheelError, messageOf } from "../../errors.ts";

type ErrorType = "invalid_request_error" | "authentication_error" | "rate_limit_error" | "server_error";

interface ApiErrorOptions {
  readonly type?: ErrorType;
  /** The field that is wrong, as a path. */
  readonly param?: string;
  readonly code?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export class ApiError extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly #options: ApiErrorOptions;

  constructor(status: number, message: string, options: ApiErrorOptions = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.headers = options.headers ?? {};
    this.#options = options;
  }

  get body(): { readonly error: Readonly<Record<string, string | null>> } {
    const { type = "invalid_request_error", param = null, code = null } = this.#options;
    return { error: { message: this.message, type, param, code } };
  }
}

/** A request that is wrong in one field. */
export function wrongField(param: string, message: string, code = "invalid_value"): ApiError {
  return new ApiError(400, `${param}: ${message}`, { param, code });
}

/** What a template, a tokenizer or a configuration refuses is the request's fault; everything else is ours. */
export function toApiError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  if (cause instanceof FlywheelError && (cause.boundary === "tokenizer" || cause.boundary === "config")) {
    return new ApiError(400, cause.message, { code: "invalid_prompt" });
  }
  return new ApiError(500, messageOf(cause), { type: "server_error", code: "internal_error" });
}
