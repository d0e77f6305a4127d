/** What a model is told of a result of the Model Context Protocol: its text, and a line for each thing that is not text. */
import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/sdk/types.js";

export function textOf({ content, structuredContent }: CallToolResult): string {
  if (content.length === 0 && structuredContent !== undefined) return JSON.stringify(structuredContent);
  return content.map(shown).join("\n") || "[no content]";
}

function shown(block: ContentBlock): string {
  switch (block.type) {
    case "text":
      return block.text;
    case "image":
    case "audio":
      return `[${block.type} ${block.mimeType}, ${bytesOf(block.data)} bytes, not shown]`;
    case "resource_link":
      return `[link ${block.name}: ${block.uri}]`;
    case "resource": {
      const { resource } = block;
      if ("text" in resource) return `[resource ${resource.uri}]\n${resource.text}`;
      return `[resource ${resource.uri}: ${resource.mimeType ?? "unknown type"}, ${bytesOf(resource.blob)} bytes, not shown]`;
    }
  }
}

const bytesOf = (base64: string): number => Buffer.byteLength(base64, "base64");
