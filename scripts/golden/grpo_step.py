"""One GRPO step (arXiv:2402.03300 with the asymmetric clip of arXiv:2503.14476): loss and gradients of three reductions."""
import torch

from common import OUT, fresh, generator, random_ids, write_json, write_tensors
from rows import forward, gradients, open_policy

FOLDER = OUT / "grpo"
PROMPTS, COMPLETIONS = (6, 11), ((5, 9, 3), (7, 2, 10))
REWARDS = ((1.0, 0.0, 0.5), (0.2, 0.9, 0.3))
CLIP_LOW, CLIP_HIGH, BETA, LMAX = 0.2, 0.28, 0.05, 16


def make_rows() -> list[dict]:
    source = generator(31)
    rows = []
    for length, completions in zip(PROMPTS, COMPLETIONS, strict=True):
        prompt = random_ids(length, source)
        for count in completions:
            ids = prompt + random_ids(count, source)
            rows.append({"ids": ids, "promptLength": length, "trained": list(range(length, length + count))})
    return rows


def advantages() -> dict[str, torch.Tensor]:
    rewards = torch.tensor(REWARDS)
    centred = rewards - rewards.mean(1, keepdim=True)
    return {"centred": centred.flatten(), "scaled": (centred / (rewards.std(1, keepdim=True) + 1e-4)).flatten()}


def per_token(lp: torch.Tensor, old: torch.Tensor, ref: torch.Tensor, advantage: torch.Tensor) -> dict[str, torch.Tensor]:
    ratio = (lp - old).exp()
    clipped = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
    surrogate = -torch.minimum(ratio * advantage, clipped * advantage)
    difference = lp - ref
    k3 = (-difference).exp() - 1 + difference
    is_clipped = ((ratio < 1 - CLIP_LOW) & (advantage < 0)) | ((ratio > 1 + CLIP_HIGH) & (advantage > 0))
    outside = (ratio < 1 - CLIP_LOW) | (ratio > 1 + CLIP_HIGH)
    return {
        "loss": surrogate + BETA * k3, "surrogate": surrogate, "ratio": ratio, "clipped": is_clipped.float(),
        "outside": outside.float(), "k1": difference, "k2": difference.square() / 2, "k3": k3,
    }


def reductions(losses: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {
        "tokenMean": torch.cat(losses).mean(),
        "sequenceMean": torch.stack([loss.mean() for loss in losses]).mean(),
        "constantDivisor": torch.cat(losses).sum() / (len(losses) * LMAX),
    }


def given_logprobs(lora: bool, policy: list[torch.Tensor], temperature: float) -> tuple[list, list]:
    """Old: the policy's own plus noise. Reference: the base without adapter (LoRA), or again the policy's own plus noise."""
    source = generator(40 + round(10 * temperature))
    noisy = lambda scale: [lp.detach() + scale * torch.randn(lp.shape, generator=source) for lp in policy]
    old = noisy(0.25)
    with torch.no_grad():
        return old, forward(open_policy("llama", False)[0], make_rows(), temperature)[0] if lora else noisy(0.3)


def step(lora: bool, temperature: float) -> tuple[str, dict]:
    rows = make_rows()
    model, trainable = open_policy("llama", lora)
    policy, entropies = forward(model, rows, temperature)
    old, ref = given_logprobs(lora, policy, temperature)
    scaled = advantages()["scaled"]
    tokens = [per_token(lp, o, r, a) for lp, o, r, a in zip(policy, old, ref, scaled, strict=True)]
    losses = reductions([token["loss"] for token in tokens])
    name = f"llama{'-lora' if lora else ''}-t{temperature:g}"
    grads = {reduction: gradients(loss, trainable) for reduction, loss in losses.items()}
    write_tensors(FOLDER / f"{name}.safetensors", {f"{r}/{key}": g for r, found in grads.items() for key, g in found.items()})
    mean = lambda key: torch.cat([token[key] for token in tokens]).mean()
    return name, {
        "model": "llama", "adapter": "lora/llama" if lora else None, "temperature": temperature,
        "clipLow": CLIP_LOW, "clipHigh": CLIP_HIGH, "beta": BETA, "lmax": LMAX, "rows": rows, "rewards": REWARDS,
        "advantages": advantages(), "old": old, "reference": ref, "logprobs": policy, "entropies": entropies,
        "loss": losses, "surrogateTokenMean": mean("surrogate"),
        "perToken": {key: [token[key] for token in tokens] for key in ("loss", "ratio", "clipped", "k3")},
        "means": {"ratio": mean("ratio"), "clipFraction": mean("clipped"), "outsideFraction": mean("outside"),
                  "k1": mean("k1"), "k2": mean("k2"), "k3": mean("k3"), "entropy": torch.cat(entropies).mean()},
    }


def main() -> None:
    fresh(FOLDER)
    for lora in (True, False):
        for temperature in (1.0, 0.7):
            name, values = step(lora, temperature)
            write_json(FOLDER / f"{name}.json", values)


if __name__ == "__main__":
    main()
