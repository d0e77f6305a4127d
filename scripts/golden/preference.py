"""Preference and reward-model losses by TRL's own code, on given log-probs and scores: value and gradient of each.

Needs trl (1.16.0) besides requirements.txt. Trainers are not built: their loss functions are called with stand-ins that carry the
settings which they read, and with a model that returns the given log-probs. The process-reward loss has no function in TRL 1.16;
it is torch's cross-entropy over two classes, as TRL's former PRMTrainer had it, with the logits (0, value).
"""
from collections import defaultdict
from types import SimpleNamespace

import torch
import torch.nn.functional as F
import trl
from trl.experimental.cpo.cpo_trainer import CPOTrainer
from trl.experimental.orpo.orpo_trainer import ORPOTrainer
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.kto_trainer import KTOTrainer
from trl.trainer.reward_trainer import RewardTrainer

from common import OUT, generator, write_json

CHOSEN, REJECTED = (5, 2, 7, 4), (3, 6, 7, 1)
LENGTHS = [*CHOSEN, *REJECTED]
PAIRS, WIDTH = len(CHOSEN), max(LENGTHS)
MASK = torch.tensor([[t < length for t in range(WIDTH)] for length in LENGTHS])
ACCELERATOR = SimpleNamespace(device="cpu", gather_for_metrics=lambda x: x, gather=lambda x: x, unwrap_model=lambda x: x)
MODEL = SimpleNamespace(training=True)


def draw(seed: int) -> torch.Tensor:
    """Log-probs of every token, 0 where a row has none: -0.01 to -6, so that mean log-probs near 0 occur."""
    values = -(torch.rand(len(LENGTHS), WIDTH, generator=generator(seed)) * 2.45).square() - 0.01
    return values * MASK


LOGPROBS, REFERENCE = draw(51), draw(52)


class Model(torch.nn.Module):
    """Answers every call with the given log-probs, as the trainers' patched models do."""

    def __init__(self, logprobs: torch.Tensor):
        super().__init__()
        self.logprobs = logprobs
        self.training = True

    def forward(self, **_):
        logged = torch.zeros_like(self.logprobs.detach())
        return SimpleNamespace(log_probs=self.logprobs, entropy=logged, mean_logits=logged, is_top1=logged.bool())


def inputs() -> dict:
    """One token of prompt, then the completion."""
    completion = torch.cat([torch.zeros(len(LENGTHS), 1, dtype=torch.bool), MASK], 1).long()
    attention = torch.cat([torch.ones(len(LENGTHS), 1, dtype=torch.bool), MASK], 1).long()
    return {"input_ids": torch.zeros_like(completion), "attention_mask": attention, "completion_mask": completion}


def trainer(**settings) -> SimpleNamespace:
    return SimpleNamespace(
        model=MODEL, accelerator=ACCELERATOR, _metrics={"train": defaultdict(list)}, _total_train_tokens=0, _tp_size=1, aux_loss_enabled=False,
        ld_alpha=None, precompute_ref_logps=True, f_divergence_type="reverse_kl", use_weighting=False, **settings,
    )


def with_gradient(loss_of) -> dict:
    logprobs = LOGPROBS.clone().requires_grad_()
    loss = loss_of(logprobs)
    (gradient,) = torch.autograd.grad(loss, logprobs)
    return {"loss": loss, "gradient": [row[:length] for row, length in zip(gradient, LENGTHS, strict=True)]}


def dpo(name: str, beta: float, smoothing: float = 0.0) -> dict:
    settings = trainer(beta=beta, label_smoothing=smoothing, loss_types=[name], loss_weights=[1.0])
    reference = REFERENCE.sum(1)
    given = {**inputs(), "ref_chosen_logps": reference[:PAIRS], "ref_rejected_logps": reference[PAIRS:]}
    return with_gradient(lambda lp: DPOTrainer._compute_loss(settings, Model(lp), given, False))


def sides(logprobs: torch.Tensor, average: bool) -> tuple[torch.Tensor, torch.Tensor]:
    sums = logprobs.sum(1) / (MASK.sum(1) if average else 1)
    return sums[:PAIRS], sums[PAIRS:]


def conservative(beta: float, smoothing: float) -> dict:
    """cDPO: TRL has it as label smoothing of CPO's sigmoid loss; here with the log-ratios to the reference in the place of log-probs."""
    settings = SimpleNamespace(accelerator=ACCELERATOR, alpha=0.0, beta=beta, loss_type="sigmoid", label_smoothing=smoothing)
    return with_gradient(lambda lp: CPOTrainer.cpo_loss(settings, *sides(lp - REFERENCE, False))[0].mean())


def simpo(beta: float, gamma: float, smoothing: float, alpha: float) -> dict:
    settings = SimpleNamespace(
        accelerator=ACCELERATOR, alpha=0.0, beta=beta, loss_type="simpo", simpo_gamma=gamma, label_smoothing=smoothing
    )
    likelihood = lambda lp: -lp[:PAIRS].sum() / sum(CHOSEN)
    return with_gradient(lambda lp: CPOTrainer.cpo_loss(settings, *sides(lp, True))[0].mean() + alpha * likelihood(lp))


def orpo(beta: float) -> dict:
    settings = SimpleNamespace(accelerator=ACCELERATOR, beta=beta)
    likelihood = lambda lp: -lp[:PAIRS].sum() / sum(CHOSEN)
    return with_gradient(lambda lp: likelihood(lp) - ORPOTrainer.odds_ratio_loss(settings, *sides(lp, True))[0].mean())


def kto(baseline: float, desirable: float, undesirable: float) -> dict:
    """Rows are labelled answers; the mismatched answers' log-ratio is `baseline` for each."""
    mean = torch.full((len(LENGTHS),), baseline)
    settings = trainer(
        beta=0.1, loss_type="kto", calculate_KL=True, desirable_weight=desirable, undesirable_weight=undesirable,
        _compute_kl_logps=lambda model, batch: mean,
    )
    label = torch.tensor([True] * PAIRS + [False] * PAIRS)
    given = {**inputs(), "label": label, "ref_logps": REFERENCE.sum(1), "ref_KL_logps": torch.zeros(len(LENGTHS))}
    result = with_gradient(lambda lp: KTOTrainer._compute_loss(settings, Model(lp), given, False))
    return {**result, "baseline": settings._metrics["train"]["kl"][0]}


SCORES = torch.tensor([1.5, -0.3, 0.2, 2.0, 0.1, 0.4, -1.0, 2.5])
MARGINS = torch.tensor([1.0, 0.0, 2.0, 0.5])


def reward(margin: bool, centring: float | None) -> dict:
    scores = SCORES.clone().requires_grad_()
    settings = trainer(args=SimpleNamespace(center_rewards_coefficient=centring))
    model = lambda **_: SimpleNamespace(logits=scores[:, None])
    model.training = True
    given = {"attention_mask": torch.ones(len(SCORES), 1), **({"margin": MARGINS} if margin else {})}
    loss = RewardTrainer.compute_loss(settings, model, given)
    return {"loss": loss, "gradient": torch.autograd.grad(loss, scores)[0]}


def steps(labels: list[float]) -> dict:
    scores = SCORES.clone().requires_grad_()
    target = torch.tensor(labels)
    two = torch.stack([torch.zeros_like(scores), scores], 1)
    hard = bool(((target == 0) | (target == 1)).all())
    loss = F.cross_entropy(two, target.long() if hard else torch.stack([1 - target, target], 1))
    return {"labels": labels, "loss": loss, "gradient": torch.autograd.grad(loss, scores)[0]}


def main() -> None:
    rows = lambda values: [row[:length] for row, length in zip(values, LENGTHS, strict=True)]
    write_json(OUT / "preference.json", {
        "trl": trl.__version__, "logprobs": rows(LOGPROBS), "reference": rows(REFERENCE), "scores": SCORES, "margins": MARGINS,
        "losses": {
            "sigmoid": dpo("sigmoid", 0.1), "hinge": dpo("hinge", 0.1), "ipo": dpo("ipo", 0.1),
            "robust": dpo("robust", 0.1, 0.2), "conservative": conservative(0.1, 0.2),
            "orpo": orpo(0.1), "simpo": simpo(2.0, 0.5, 0.0, 0.0), "simpo-likelihood": simpo(2.5, 1.2, 0.1, 1.0),
            "kto": kto(0.7, 1.0, 1.0), "kto-weighted": kto(1.3, 1.5, 0.5), "kto-negative": kto(-0.4, 1.0, 1.0),
            "reward": reward(False, None), "reward-margin": reward(True, None), "reward-centred": reward(True, 0.01),
            "steps-hard": steps([1, 0, 1, 1, 0, 0, 0, 1]), "steps-soft": steps([0.9, 0.1, 0.5, 1.0, 0.25, 0.0, 0.3, 0.75]),
        },
    })


if __name__ == "__main__":
    main()
