"""Training rows and low-rank adapters that the step scripts share."""
import json

import torch

from common import OUT, fresh, generator, load, random_ids, trained_logprobs, write_tensors

RANK, ALPHA = 4, 8
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def sft_rows() -> list[dict]:
    """Three rows of unequal length. The second has two trained spans; the last trains the first and the last possible token."""
    source = generator(11)
    spans = {9: range(4, 9), 17: (*range(5, 8), *range(12, 15)), 12: range(1, 12)}
    return [{"ids": random_ids(length, source), "trained": list(trained)} for length, trained in spans.items()]


def random_adapter(model, seed: int) -> dict[str, torch.Tensor]:
    """A [rank, in] and B [out, rank] of every projection, both non-zero, under PEFT's names."""
    source = generator(seed)
    adapter = {}
    for name, module in model.named_modules():
        if name.split(".")[-1] in PROJECTIONS:
            for part, shape in (("A", (RANK, module.in_features)), ("B", (module.out_features, RANK))):
                key = f"base_model.model.{name}.lora_{part}.weight"
                adapter[key] = (0.07 * torch.randn(shape, generator=source)).requires_grad_(True)
    return adapter


def attach(model, adapter: dict[str, torch.Tensor]) -> None:
    """Freezes the base and makes each projection compute x W^T + b + (alpha / rank) (x A^T) B^T."""
    model.requires_grad_(False)
    for name, module in model.named_modules():
        a, b = (adapter.get(f"base_model.model.{name}.lora_{part}.weight") for part in "AB")
        if a is not None:
            module.register_forward_hook(lambda _, x, y, a=a, b=b: y + (ALPHA / RANK) * (x[0] @ a.T) @ b.T)


def save_adapter(name: str, adapter: dict[str, torch.Tensor]) -> None:
    folder = fresh(OUT / "lora" / name)
    write_tensors(folder / "adapter_model.safetensors", adapter)
    config = dict(
        peft_type="LORA", task_type="CAUSAL_LM", base_model_name_or_path=f"models/{name}", r=RANK, lora_alpha=ALPHA,
        lora_dropout=0.0, bias="none", fan_in_fan_out=False, use_rslora=False, use_dora=False, modules_to_save=None,
        target_modules=list(PROJECTIONS),
    )
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def open_policy(name: str, lora: bool) -> tuple:
    """A model and its trainable tensors by name: every parameter, or A and B of a random adapter."""
    model = load(name)
    if not lora:
        return model, dict(model.named_parameters())
    adapter = random_adapter(model, 21)
    attach(model, adapter)
    return model, adapter


def forward(model, rows: list[dict], temperature: float = 1.0) -> tuple[list, list]:
    """Log-probs and entropies of the trained tokens, a tensor for each row."""
    pairs = [trained_logprobs(model, row, temperature) for row in rows]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def gradients(loss: torch.Tensor, trainable: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    found = torch.autograd.grad(loss, list(trainable.values()), retain_graph=True)
    return dict(zip(trainable, found, strict=True))
