"""A scalar head on a low-rank adapter: values of chosen states, and the gradient of their squared sum for adapter and head."""
import torch
from transformers import AutoModelForSequenceClassification

from common import MODELS, OUT, fresh, generator, write_json, write_tensors
from rows import attach, gradients, random_adapter, sft_rows

FOLDER = OUT / "values"


def step(family: str) -> None:
    rows = sft_rows()
    rows[2]["trained"].append(len(rows[2]["ids"]))  # the state after the whole row
    model = AutoModelForSequenceClassification.from_pretrained(
        MODELS / family, num_labels=1, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        model.score.weight.copy_(0.3 * torch.randn(model.score.weight.shape, generator=generator(51)))
    adapter = random_adapter(model, 21)
    attach(model, adapter)
    model.score.weight.requires_grad_(True)
    trainable = {**adapter, "base_model.model.score.weight": model.score.weight}

    def values(row: dict) -> torch.Tensor:
        hidden = model.model(torch.tensor([row["ids"]]), use_cache=False).last_hidden_state[0]
        return model.score(hidden)[torch.tensor(row["trained"]) - 1, 0]

    found = [values(row) for row in rows]
    loss = torch.cat(found).square().sum()
    write_tensors(FOLDER / f"{family}.safetensors", gradients(loss, trainable))
    write_json(FOLDER / f"{family}.json", {
        "model": family, "adapter": f"lora/{family}", "rows": rows, "score": model.score.weight[0], "loss": loss, "values": found,
    })


if __name__ == "__main__":
    fresh(FOLDER)
    for name in ("llama", "qwen2"):
        step(name)
