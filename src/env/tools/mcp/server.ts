/** How a server of the Model Context Protocol is started or reached. */
interface McpOptions {
  /** Names of the server's tools that are wanted; all, if left out. */
  readonly include?: readonly string[];
  /** True: each episode has a server (over HTTP: a session) of its own. Default: one for all, whose calls must not disturb each other. */
  readonly perEpisode?: boolean;
  /** How long a server may take to start; default 30. */
  readonly startSeconds?: number;
}

export interface McpCommand extends McpOptions {
  readonly command: string;
  readonly args?: readonly string[];
  /** Beside HOME, LOGNAME, PATH, SHELL, TERM and USER, which are all that it gets of this process's. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface McpUrl extends McpOptions {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export type McpServer = McpCommand | McpUrl;
