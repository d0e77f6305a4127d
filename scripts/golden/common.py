"""What the golden scripts share: seeded values, tiny models, log-probs, and the two output formats (JSON, safetensors)."""
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

OUT = Path(__file__).resolve().parents[2] / "test" / "golden"
MODELS = OUT / "models"
FAMILIES = ("gpt2", "llama", "llama3", "qwen2", "qwen3")
VOCAB = 96

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
logging.disable_progress_bar()


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def digits(value):
    """JSON-ready form; 9 significant digits give every float32 back exactly."""
    if isinstance(value, torch.Tensor):
        return digits(value.detach().tolist())
    if isinstance(value, dict):
        return {key: digits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [digits(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def write_json(path: Path, value) -> None:
    """One line for each key of the top two levels; NaN and infinity are refused."""
    compact = lambda item: json.dumps(digits(item), allow_nan=False, separators=(",", ":"))
    nested = lambda item: isinstance(item, dict) and len(item) > 0
    lines = []
    for key, item in value.items():
        if nested(item):
            inner = ",\n".join(f"  {json.dumps(k)}: {compact(v)}" for k, v in item.items())
            lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
        elif isinstance(item, list) and item and nested(item[0]):
            inner = ",\n".join(f"  {compact(v)}" for v in item)
            lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {compact(item)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_tensors(path: Path, tensors: dict) -> None:
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, path)


def load(name: str):
    """A stored tiny model, float32, eager attention, no dropout."""
    model = AutoModelForCausalLM.from_pretrained(MODELS / name, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


def random_ids(count: int, source: torch.Generator) -> list[int]:
    return torch.randint(0, VOCAB, (count,), generator=source).tolist()


def trained_logprobs(model, row: dict, temperature: float = 1.0):
    """Log-prob and entropy of each trained token; position t is predicted by the logits at t - 1, divided by T."""
    logits = model(torch.tensor([row["ids"]]), use_cache=False).logits[0] / temperature
    trained = torch.tensor(row["trained"])
    distribution = torch.log_softmax(logits[trained - 1], dim=-1)
    targets = torch.tensor(row["ids"])[trained]
    logprobs = distribution.gather(1, targets[:, None])[:, 0]
    entropies = -(distribution.exp() * distribution).sum(-1)
    return logprobs, entropies
