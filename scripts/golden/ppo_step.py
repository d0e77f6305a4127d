"""One PPO step as TRL's experimental PPOTrainer computes it (f2cd577, L786-830): token rewards with KL, GAE, whitening, both losses.

Actor and critic are the same random adapter on the tiny llama; the critic has a scalar head. `old` log-probs, `reference` and `values`
are the models' own plus noise, so that clips and penalties act.
"""
import torch
from transformers import AutoModelForSequenceClassification

from common import MODELS, OUT, fresh, generator, random_ids, trained_logprobs, write_json, write_tensors
from rows import attach, gradients, open_policy, random_adapter

FOLDER = OUT / "ppo"
CLIP, VALUE_CLIP, KL_COEF, GAMMA, LAMBDA = 0.2, 0.2, 0.05, 0.98, 0.95
SCORES = (1.0, -0.5, 0.25)
PROMPT, COMPLETIONS = 7, (5, 9, 3)


def make_rows() -> list[dict]:
    source = generator(71)
    prompt = random_ids(PROMPT, source)
    return [{"ids": prompt + random_ids(n, source), "trained": list(range(PROMPT, PROMPT + n))} for n in COMPLETIONS]


def masked_whiten(rows: list[torch.Tensor], shift_mean: bool = True) -> list[torch.Tensor]:
    """trl.core.masked_whiten: unbiased variance, 1e-8 under the root."""
    flat = torch.cat(rows)
    mean, scale = flat.mean(), torch.rsqrt(flat.var(unbiased=True) + 1e-8)
    return [(row - mean) * scale + (0 if shift_mean else mean) for row in rows]


def gae(rewards: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    ahead, advantages = 0.0, []
    for t in reversed(range(len(rewards))):
        after = values[t + 1] if t + 1 < len(values) else 0.0
        ahead = rewards[t] + GAMMA * after - values[t] + GAMMA * LAMBDA * ahead
        advantages.append(ahead)
    found = torch.stack(advantages[::-1])
    return found, found + values


def open_critic() -> tuple:
    model = AutoModelForSequenceClassification.from_pretrained(
        MODELS / "llama", num_labels=1, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        model.score.weight.copy_(0.3 * torch.randn(model.score.weight.shape, generator=generator(51)))
    adapter = random_adapter(model, 21)
    attach(model, adapter)
    model.score.weight.requires_grad_(True)
    return model, {**adapter, "base_model.model.score.weight": model.score.weight}


def values_of(model, row: dict) -> torch.Tensor:
    hidden = model.model(torch.tensor([row["ids"]]), use_cache=False).last_hidden_state[0]
    return model.score(hidden)[torch.tensor(row["trained"]) - 1, 0]


def main() -> None:
    rows, noise = make_rows(), generator(72)
    noisy = lambda tensors, scale: [x.detach() + scale * torch.randn(x.shape, generator=noise) for x in tensors]
    actor, actor_weights = open_policy("llama", True)
    critic, critic_weights = open_critic()
    policy = [trained_logprobs(actor, row)[0] for row in rows]
    values = [values_of(critic, row) for row in rows]
    old, reference, old_values = noisy(policy, 0.25), noisy(policy, 0.3), noisy(values, 0.3)
    rewards = [-KL_COEF * (lp - ref) for lp, ref in zip(old, reference, strict=True)]
    for reward, score in zip(rewards, SCORES, strict=True):
        reward[-1] += score
    plain = [gae(r, v) for r, v in zip(rewards, old_values, strict=True)]
    whitened = [gae(r, v) for r, v in zip(masked_whiten(rewards, shift_mean=False), old_values, strict=True)]
    advantages = masked_whiten([a for a, _ in plain])
    returns = [r for _, r in plain]
    ratio = [(lp - o).exp() for lp, o in zip(policy, old, strict=True)]
    policy_loss = torch.cat([
        torch.maximum(-a * r, -a * r.clamp(1 - CLIP, 1 + CLIP)) for a, r in zip(advantages, ratio, strict=True)
    ]).mean()
    value_loss = 0.5 * torch.cat([
        torch.maximum((v - target).square(), (v.clamp(o - VALUE_CLIP, o + VALUE_CLIP) - target).square())
        for v, o, target in zip(values, old_values, returns, strict=True)
    ]).mean()
    fresh(FOLDER)
    named = {f"policy/{k}": g for k, g in gradients(policy_loss, actor_weights).items()}
    named |= {f"value/{k}": g for k, g in gradients(value_loss, critic_weights).items()}
    write_tensors(FOLDER / "step.safetensors", named)
    write_json(FOLDER / "step.json", {
        "model": "llama", "adapter": "lora/llama", "clip": CLIP, "valueClip": VALUE_CLIP, "klCoef": KL_COEF, "gamma": GAMMA,
        "lambda": LAMBDA, "rows": rows, "scores": SCORES, "head": critic_weights["base_model.model.score.weight"][0], "old": old,
        "reference": reference, "values": old_values, "rewards": rewards, "rawAdvantages": [a for a, _ in plain],
        "advantages": advantages, "returns": returns, "returnsOfWhitenedRewards": [r for _, r in whitened],
        "policyLoss": policy_loss, "valueLoss": value_loss,
    })


if __name__ == "__main__":
    main()
