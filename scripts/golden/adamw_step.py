"""Five AdamW updates of whole models with clipping of the global gradient norm: cross-entropy on the rows of sft_step.py."""
import torch

from common import OUT, fresh, write_json, write_tensors
from rows import forward, open_policy, sft_rows

FOLDER = OUT / "adamw-step"
SETTINGS = dict(learningRate=1e-2, beta1=0.9, beta2=0.95, epsilon=1e-8, weightDecay=0.1)
STEPS = 5
# Between the norms of the first and the last update, so that some are clipped and some are not.
MAX_NORM = {"llama": 3.0, "gpt2": 3.0, "qwen3": 4.0, "llama-lora": 2.0}


def run(family: str, lora: bool) -> None:
    name = f"{family}-lora" if lora else family
    rows = sft_rows()
    model, trainable = open_policy(family, lora)
    tokens = sum(len(row["trained"]) for row in rows)
    parameters = list(trainable.values())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": SETTINGS["weightDecay"]},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    betas = (SETTINGS["beta1"], SETTINGS["beta2"])
    optimizer = torch.optim.AdamW(groups, lr=SETTINGS["learningRate"], betas=betas, eps=SETTINGS["epsilon"], foreach=False)
    steps = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = -torch.cat(forward(model, rows)[0]).sum() / tokens
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM[name], foreach=False)
        optimizer.step()
        steps.append({"loss": loss.item(), "gradNorm": norm.item(), "clipped": bool(norm > MAX_NORM[name])})
    assert {step["clipped"] for step in steps} == {True, False}, steps
    write_tensors(FOLDER / f"{name}.safetensors", trainable)
    write_json(FOLDER / f"{name}.json", {
        "model": family, "adapter": f"lora/{family}" if lora else None, "settings": SETTINGS, "maxGradNorm": MAX_NORM[name],
        "rows": rows, "trainedTokens": tokens, "steps": steps,
    })


if __name__ == "__main__":
    fresh(FOLDER)
    for case in (("llama", False), ("gpt2", False), ("qwen3", False), ("llama", True)):
        run(*case)
