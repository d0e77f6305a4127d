"""Tiny random checkpoints of each model family, and what transformers computes with them."""
import json

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config, AutoModelForCausalLM

from common import FAMILIES, MODELS, VOCAB, fresh, generator, load, random_ids, write_json, write_tensors

LENGTHS = (13, 57)
SHAPE = dict(
    vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=64, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=None,
)


def rope(theta: float, **scaling) -> dict:
    return dict(rope_parameters={"rope_theta": theta, "rope_type": "default", **scaling})


# Of the 8 frequencies of llama3 (wavelengths 6.3, 19.9, 62.8, ...) one is kept, one is blended and six are divided by 8.
LLAMA3_ROPE = rope(
    10000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32,
)
CONFIGS = {
    "gpt2": GPT2Config(
        vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    ),
    "llama": LlamaConfig(**SHAPE, **rope(100000.0), rms_norm_eps=1e-5, tie_word_embeddings=True),
    "llama3": LlamaConfig(**SHAPE, **LLAMA3_ROPE, head_dim=16, rms_norm_eps=1e-5, tie_word_embeddings=False),
    "qwen2": Qwen2Config(**SHAPE, **rope(1000000.0), rms_norm_eps=1e-6, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SHAPE, **rope(1000000.0), head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True),
}


def randomise(model, seed: int) -> None:
    """Norm weights near one and biases near zero, but neither: leaving one out must change the logits."""
    source = generator(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=source)
        is_norm = name.endswith("weight") and parameter.dim() == 1
        is_embedding = any(part in name for part in ("embed_tokens", "wte", "lm_head"))
        with torch.no_grad():
            parameter.copy_(1 + 0.3 * noise if is_norm else (0.3 if is_embedding else 0.2) * noise)


def hub_config(folder) -> None:
    """Rewrites the rotary settings in the form that most published checkpoints have (before transformers 5)."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    settings = config.pop("rope_parameters")
    config["rope_theta"] = settings.pop("rope_theta")
    config["rope_scaling"] = settings if settings["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def save(model, name: str, shard: str = "1GB") -> None:
    folder = fresh(MODELS / name)
    model.save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)


def save_hub_gpt2() -> None:
    """The names of the published GPT-2 files: no `transformer.` prefix, and the causal masks stored as `attn.bias`."""
    folder = fresh(MODELS / "gpt2-hub")
    weights = load_file(MODELS / "gpt2" / "model.safetensors")
    renamed = {name.removeprefix("transformer."): tensor for name, tensor in weights.items() if name != "lm_head.weight"}
    for layer in range(2):
        renamed[f"h.{layer}.attn.bias"] = torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64)
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text((MODELS / "gpt2" / "config.json").read_text())


@torch.no_grad()
def expect(name: str, seed: int) -> None:
    source = generator(seed)
    rows = [random_ids(length, source) for length in LENGTHS]
    model = load(name)
    tensors = {}
    for index, ids in enumerate(rows):
        hidden = model.base_model(torch.tensor([ids]), use_cache=False).last_hidden_state
        tensors[f"row{index}.hidden"] = hidden[0]
        tensors[f"row{index}.logits"] = model.get_output_embeddings()(hidden)[0]
    write_json(MODELS / name / "expected.json", {"rows": rows})
    write_tensors(MODELS / name / "expected.safetensors", tensors)


def main() -> None:
    for index, (name, config) in enumerate(CONFIGS.items()):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
        randomise(model, 100 + index)
        save(model, name)
        if name == "llama":
            save(model, "llama-sharded", shard="40KB")
            save(model.to(torch.bfloat16), "llama-bf16")
    for name in ("llama", "llama3"):
        hub_config(MODELS / name)
    save_hub_gpt2()
    for name in (*FAMILIES, "llama-sharded", "llama-bf16", "gpt2-hub"):
        expect(name, 7)


if __name__ == "__main__":
    main()
