"""SmolLM2-135M-Instruct from a GGUF file (Q4_1), loaded by transformers: logits, log-probs and a greedy answer.

Usage: python smollm2.py <folder>/SmolLM2-135M-Instruct.Q4_1.gguf
"""
import sys
from pathlib import Path

import torch
from gguf import GGUFReader
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

from common import OUT, digits, write_json

TEXT = "The capital of France is Paris. In 1789, the people of"
CHAT = [{"role": "user", "content": "What is 17 + 25? Answer with the number only."}]
GREEDY, TOP, PROBES = 16, 20, 64
CONTROL = 3


def read_tokenizer(reader: GGUFReader) -> Tokenizer:
    """Byte-level BPE with every digit apart, as in the model's own tokenizer.json."""
    field = lambda key: reader.fields[f"tokenizer.ggml.{key}"].contents()
    tokens = field("tokens")
    merges = [tuple(merge.split(" ")) for merge in field("merges")]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, field("token_type"), strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def render_chat(reader: GGUFReader) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(reader.fields["tokenizer.chat_template"].contents())
    return template.render(messages=CHAT, add_generation_prompt=True)


@torch.no_grad()
def describe(model, tokenizer: Tokenizer, text: str) -> dict:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    distribution = torch.log_softmax(logits, dim=-1)
    top = logits[-1].topk(TOP)
    probes = [index * (logits.shape[1] // PROBES) + index % 7 for index in range(PROBES)]
    return {
        "text": text, "ids": ids, "logprobs": distribution[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0],
        "topIds": top.indices, "topLogits": top.values, "probeIds": probes, "probeLogits": logits[-1, probes],
        "logSumExp": torch.logsumexp(logits[-1], 0), **greedy(model, tokenizer, ids),
    }


def greedy(model, tokenizer: Tokenizer, prompt: list[int]) -> dict:
    """Until 16 tokens, or the end of the turn, which is included; the margin is between the best two logits."""
    ids, logprobs, margins = list(prompt), [], []
    end = tokenizer.token_to_id("<|im_end|>")
    while len(logprobs) < GREEDY and (not logprobs or ids[-1] != end):
        top = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0, -1], dim=-1).topk(2)
        ids.append(top.indices[0].item())
        logprobs.append(top.values[0].item())
        margins.append((top.values[0] - top.values[1]).item())
    answer = ids[len(prompt):]
    return {
        "greedyIds": answer, "greedyLogprobs": logprobs, "greedyMargins": margins,
        "greedyText": tokenizer.decode(answer, skip_special_tokens=False),
    }


def main(path: Path) -> None:
    reader = GGUFReader(path)
    tokenizer = read_tokenizer(reader)
    model = AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size",
            "vocab_size", "rms_norm_eps", "tie_word_embeddings", "rope_parameters")
    write_json(OUT / "smollm2.json", {
        "file": path.name, "config": digits({key: getattr(model.config, key) for key in keys}),
        "plain": describe(model, tokenizer, TEXT), "chatMessages": CHAT,
        "chat": describe(model, tokenizer, render_chat(reader)),
    })


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(Path(sys.argv[1]))
