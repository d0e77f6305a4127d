"""One cross-entropy step of each family: loss, log-probs, entropies and the gradient of every trainable tensor."""
import torch

from common import FAMILIES, OUT, fresh, write_json, write_tensors
from rows import forward, gradients, open_policy, save_adapter, sft_rows

FOLDER = OUT / "sft"
CASES = [(family, False) for family in FAMILIES] + [("llama", True), ("qwen2", True)]


def step(family: str, lora: bool) -> None:
    rows = sft_rows()
    model, trainable = open_policy(family, lora)
    logprobs, entropies = forward(model, rows)
    trained = sum(len(row["trained"]) for row in rows)
    loss = -torch.cat(logprobs).sum() / trained
    name = f"{family}-lora" if lora else family
    if lora:
        save_adapter(family, trainable)
    write_tensors(FOLDER / f"{name}.safetensors", gradients(loss, trainable))
    write_json(FOLDER / f"{name}.json", {
        "model": family, "adapter": f"lora/{family}" if lora else None, "rows": rows, "trainedTokens": trained, "loss": loss,
        "logprobs": logprobs, "entropies": entropies,
    })


if __name__ == "__main__":
    fresh(FOLDER)
    for case in CASES:
        step(*case)
