"""Renders test/golden/chat/conversations.json with every template there, by transformers' own machinery.

Run from the root of the repository with a Python that has transformers 5 and jinja2 3.1:
    python scripts/golden/chat_templates.py
Writes test/golden/chat/<family>.json: {conversation: text}, or {"error": message} where the template refuses.
"""
import json
import pathlib

import jinja2
from transformers.utils.chat_template_utils import render_jinja_template

folder = pathlib.Path(__file__).parents[2] / "test" / "golden" / "chat"
source = json.loads((folder / "conversations.json").read_text(encoding="utf-8"))
tools = [{"type": "function", "function": tool} for tool in source["tools"]]


def as_dict(message):
    out = {"role": message["role"], "content": message["content"]}
    if "reasoning" in message:
        out["reasoning_content"] = message["reasoning"]
    if "toolCalls" in message:
        out["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in message["toolCalls"]
        ]
    if "toolCallId" in message:
        out["tool_call_id"] = message["toolCallId"]
    if "name" in message:
        out["name"] = message["name"]
    return out


for path in sorted(folder.glob("*.jinja")):
    golden = {}
    for conversation in source["conversations"]:
        try:
            rendered, _ = render_jinja_template(
                conversations=[[as_dict(message) for message in conversation["messages"]]],
                tools=tools if conversation.get("tools") else None,
                chat_template=path.read_text(encoding="utf-8"),
                add_generation_prompt=conversation.get("addGenerationPrompt", True),
                **source["variables"],
            )
            golden[conversation["name"]] = rendered[0]
        except jinja2.exceptions.TemplateError as error:
            golden[conversation["name"]] = {"error": str(error)}
    text = json.dumps(golden, ensure_ascii=False, indent=1)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    print(path.stem, len(golden))
