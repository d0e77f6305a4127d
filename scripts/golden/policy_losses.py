"""Policy losses of the critic-free algorithms: value and gradient with respect to each log-prob, over six ragged completions.

Where TRL has the loss, TRL's own code makes it: `_compute_loss` of GRPOTrainer and RLOOTrainer, with a stand-in for the trainer that
gives back the log-probs. The rest is PyTorch autograd written from the papers. Needs `trl` beside requirements.txt.
"""
from collections import defaultdict
from types import SimpleNamespace

import torch
from trl import __version__ as trl_version
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer

from common import OUT, generator, write_json

LENGTHS = (5, 9, 3, 7, 2, 10)
UNITS = (0, 0, 0, 1, 1, 1)
ADVANTAGES = (1.1, -0.9, -0.2, -0.5, 1.4, -0.9)
LMAX = 12
CLIP_LOW, CLIP_HIGH, BETA, CAP, ENTROPY, DELTA = 0.2, 0.28, 0.05, 1.3, 0.02, 0.05
TOKENS = sum(LENGTHS)

source = generator(71)
SHAPE = (len(LENGTHS), max(LENGTHS))
mask = (torch.arange(SHAPE[1])[None] < torch.tensor(LENGTHS)[:, None]).float()
noise = lambda scale: scale * torch.randn(SHAPE, generator=source)
start = -2.5 + noise(0.9).clamp(-2, 2)
data = {"logprobs": start, "old": start + noise(0.25), "reference": start + noise(0.3), "entropy": 1.5 + noise(0.3)}
data["sampler"] = data["old"] + noise(0.2)
advantages = torch.tensor(ADVANTAGES)


class Echo:
    """An accelerator of one process."""
    num_processes, sync_gradients = 1, True
    gather = gather_for_metrics = staticmethod(lambda x: x)
    reduce = staticmethod(lambda x, reduction: x)


def stand_in(logprobs, entropies, **options):
    settings = dict(loss_type="dapo", level="token", beta=0.0, low=CLIP_LOW, high=CLIP_HIGH, threshold=None, entropy=0.0, corrected=False)
    settings.update(options)
    return SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (logprobs, entropies, None),
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask, aux_loss_enabled=False, top_entropy_quantile=1.0,
        off_policy_mask_threshold=settings["threshold"], importance_sampling_level=settings["level"], beta=settings["beta"],
        loss_type=settings["loss_type"], epsilon_low=settings["low"], epsilon_high=settings["high"], use_vllm=settings["corrected"],
        vllm_importance_sampling_correction=True, model=SimpleNamespace(training=True), current_gradient_accumulation_steps=1,
        args=SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1), accelerator=Echo(),
        max_completion_length=LMAX, _entropy_bonus_enabled=settings["entropy"] > 0, entropy_coef=settings["entropy"],
        use_adaptive_entropy=False, _metrics={"train": defaultdict(list)},
    )


def inputs_with(**more):
    ids = torch.zeros(SHAPE, dtype=torch.long)
    return dict(
        prompt_ids=ids[:, :1], prompt_mask=ids[:, :1] + 1, completion_ids=ids, completion_mask=mask, advantages=advantages,
        old_per_token_logps=data["old"], ref_per_token_logps=data["reference"], num_items_in_batch=mask.sum(), **more,
    )


def ragged(values):
    return [values[i, :length].tolist() for i, length in enumerate(LENGTHS)]


def case(loss_of):
    logprobs, entropies = (data[name].clone().requires_grad_(True) for name in ("logprobs", "entropy"))
    loss = loss_of(logprobs, entropies)
    by_logprob, by_entropy = torch.autograd.grad(loss, [logprobs, entropies], allow_unused=True)
    found = {"loss": loss, "gradient": ragged(by_logprob)}
    return found if by_entropy is None else {**found, "entropyGradient": ragged(by_entropy)}


def trl(more=None, **options):
    return case(lambda lp, h: GRPOTrainer._compute_loss(stand_in(lp, h, **options), None, inputs_with(**(more or {}))))


def rloo():
    old = (data["old"] * mask).sum(1)
    return case(lambda lp, h: RLOOTrainer._compute_loss(stand_in(lp, h), None, {**inputs_with(), "old_logps": old}))


def corrected(mode):
    """TRL makes the ratio while it generates; here from its formula, then weighed by TRL's loss."""
    gap = (data["old"] - data["sampler"]) * mask
    ratio = (gap.sum(-1, keepdim=True) if mode.startswith("sequence") else gap).exp()
    ratio = ratio.clamp(max=CAP) if mode.endswith("truncate") else ratio.masked_fill(ratio > CAP, 0.0)
    return trl({"importance_sampling_ratio": ratio}, corrected=True)


def token_mean(per_token):
    return case(lambda lp, h: (per_token(lp) * mask).sum() / TOKENS)


A = advantages[:, None].expand(SHAPE)
ratio = lambda lp: (lp - data["old"]).exp()
clipped = lambda lp: torch.maximum(-ratio(lp) * A, -ratio(lp).clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * A)


def dual_clip(lp):
    """arXiv:1912.09729 with c = 1.3."""
    return torch.where(A < 0, torch.minimum(clipped(lp), -1.3 * A), clipped(lp))


def dppo(lp):
    """arXiv:2602.04879, binary total variation, bounds 0.02 and 0.03."""
    moved = (lp.exp() - data["old"].exp()).detach()
    keep = ~(((A > 0) & (moved > 0.03)) | ((A < 0) & (moved < -0.02)))
    return -ratio(lp) * A * keep


def kl_cov(lp):
    """arXiv:2505.22617 on tokens above a covariance of 0.5, centred over each task's samples; KL(old || policy) as k3."""
    units = torch.tensor(UNITS)[:, None].expand(SHAPE)
    chosen = torch.zeros(SHAPE, dtype=torch.bool)
    for unit in set(UNITS):
        own = (units == unit) & (mask > 0)
        centred = lambda x: x - x[own].mean()
        chosen |= own & (centred(lp.detach()) * centred(A) > 0.5)
    k3 = ratio(lp) - 1 - (lp - data["old"])
    return clipped(lp) + 0.7 * k3 * chosen


def main():
    cases = {
        "grpo-token-mean-kl": trl(beta=BETA), "grpo-sequence-mean": trl(loss_type="grpo"), "dr-grpo": trl(loss_type="dr_grpo"),
        "gspo": trl(loss_type="grpo", level="sequence", low=0.03, high=0.04), "cispo": trl(loss_type="cispo", high=1.2), "rloo": rloo(),
        "off-policy-mask": trl({"sampling_per_token_logps": data["sampler"]}, threshold=DELTA), "entropy": trl(entropy=ENTROPY),
        **{f"correction-{mode.replace('_', '-')}": corrected(mode)
           for mode in ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")},
        "reinforce": token_mean(lambda lp: -A * lp), "dual-clip": token_mean(dual_clip), "dppo": token_mean(dppo), "kl-cov": token_mean(kl_cov),
    }
    write_json(OUT / "policy-losses.json", {
        "trl": trl_version, "unit": UNITS, "advantage": ADVANTAGES, "lmax": LMAX,
        "tokens": {name: ragged(values) for name, values in data.items()}, "cases": cases,
    })


if __name__ == "__main__":
    main()
