"""Greedy continuations, one prompt at a time, recomputing the whole row at every token."""
import torch

from common import OUT, generator, load, random_ids, write_json

LENGTHS, COUNT, MARGIN = (5, 14), 20, 1e-3


@torch.no_grad()
def greedy(model, prompt: list[int], count: int = COUNT) -> dict:
    ids, logprobs, margins = list(prompt), [], []
    for _ in range(count):
        distribution = torch.log_softmax(model(torch.tensor([ids]), use_cache=False).logits[0, -1].float(), dim=-1)
        top = distribution.topk(2)
        ids.append(top.indices[0].item())
        logprobs.append(top.values[0])
        margins.append((top.values[0] - top.values[1]).item())
    assert min(margins) > MARGIN, f"greedy: expected no near ties, got a margin of {min(margins)}; choose other prompts"
    return {"prompt": prompt, "ids": ids[len(prompt):], "logprobs": torch.stack(logprobs), "smallestMargin": min(margins)}


if __name__ == "__main__":
    source = generator(61)
    prompts = [random_ids(length, source) for length in LENGTHS]
    found = {name: [greedy(load(name), prompt) for prompt in prompts] for name in ("llama", "qwen3")}
    write_json(OUT / "generate.json", found)
