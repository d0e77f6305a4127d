"""Advantages of the critic-free algorithms from rewards of ragged completions, in PyTorch; one reward is missing (NaN)."""
import torch
from trl.trainer.utils import nanstd

from common import OUT, write_json

REWARDS = torch.tensor([[1.0, 0.0, 0.5, 0.25], [0.2, float("nan"), 0.9, 0.3]])
LENGTHS = torch.tensor([[3, 5, 2, 4], [6, 1, 2, 3]])
GAMMA = 0.9

scored = ~REWARDS.isnan()
known = REWARDS.nan_to_num(0.0)
mean = REWARDS.nanmean(1, keepdim=True)
centred = REWARDS - mean


def whiten(tokens: torch.Tensor) -> torch.Tensor:
    """verl's masked_whiten on the scored tokens: unbiased variance, 1e-8 inside the root."""
    return (tokens - tokens.mean()) * torch.rsqrt(tokens.var() + 1e-8)


def tokens_of(values: torch.Tensor, discount: float) -> torch.Tensor:
    """Each scored completion's tokens: its value, discounted from the last token backwards."""
    rows = [(values[p, i], LENGTHS[p, i]) for p in range(2) for i in range(4) if scored[p, i]]
    return torch.cat([value * discount ** torch.arange(int(length) - 1, -1, -1) for value, length in rows])


def main() -> None:
    count = scored.sum(1, keepdim=True)
    total = known.sum(1, keepdim=True)
    weighted = (known * LENGTHS * scored).sum(1, keepdim=True) / (LENGTHS * scored).sum(1, keepdim=True)
    members = {
        "centred": centred, "groupSampleStd": centred / nanstd(REWARDS, dim=1)[:, None], "batchSampleStd": centred / nanstd(REWARDS),
        "leaveOneOut": REWARDS - (total - known) / (count - 1), "meanScaled": centred / mean, "batchCentred": REWARDS - REWARDS.nanmean(),
        "lengthWeighted": REWARDS - weighted,
    }
    write_json(OUT / "advantages.json", {
        "rewards": known, "scored": scored.tolist(), "lengths": LENGTHS, "gamma": GAMMA,
        "members": {name: values[scored] for name, values in members.items()},
        "tokens": {"reinforcePlusPlus": whiten(tokens_of(REWARDS, GAMMA)), "reinforcePlusPlusBaseline": whiten(tokens_of(centred, 1.0))},
    })


if __name__ == "__main__":
    main()
