"""Tiny models of every supported GGUF architecture, with what Hugging Face's loaders make of them.

Needs torch, transformers 5.24, tokenizers, gguf 0.19.0, safetensors. For each model: <name>.gguf as llama.cpp's converter
writes it (tensor names from gguf's own table; q and k rows interleaved for llama; Conv1D matrices transposed for gpt2),
<name>.safetensors with the weights before that, and <name>.json with the configuration and token ids of sample texts,
encoded by a `tokenizers` BPE that has the pre-tokenizer of the family's published tokenizer.json.
"""
import json
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGUFWriter, TokenType
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

out = Path(__file__).resolve().parents[2] / "test" / "golden" / "gguf"
out.mkdir(parents=True, exist_ok=True)
texts = ["", "Hello, world!", "  two  spaces\n\n\tand tabs \r\n", "it's 12345 and 6.789", "DON'T we'll", "Ünïcödé 世界 🙂 e\u0301",
         "٣² ½ x1y22", "<|start|>user\nhi<|end|>", "call<tool>f(1)</tool>", "constructor __proto__ toString"]
words = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def tokenizer_of(family: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=family == "llama-bpe"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=family in ("gpt-2", "smollm"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence({
        "gpt-2": [byte_level],
        "smollm": [pre_tokenizers.Digits(individual_digits=True), byte_level],
        "qwen2": [pre_tokenizers.Split(Regex(words % r"\p{N}"), "isolated"), byte_level],
        "llama-bpe": [pre_tokenizers.Split(Regex(words % r"\p{N}{1,3}"), "isolated"), byte_level],
    }[family])
    if family == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|start|>", "<|end|>"], show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(texts * 3 + ["the cat and the dog 1999 2000 12345 it's constructor toString"] * 4, trainer)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("</tool>", normalized=False)])
    if family == "llama-bpe":
        tokenizer.post_processor = processors.TemplateProcessing(single="<|start|> $A", pair="<|start|> $A <|start|>:1 $B:1",
                                                                 special_tokens=[("<|start|>", 0)])
    return tokenizer


def add_tokenizer(writer: GGUFWriter, family: str, tokenizer: Tokenizer, padded: int) -> None:
    vocab = {id: token for token, id in tokenizer.get_vocab().items()}
    added = tokenizer.get_added_tokens_decoder()
    kind = lambda id: TokenType.NORMAL if id not in added else TokenType.CONTROL if added[id].special else TokenType.USER_DEFINED
    size = len(vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(family)
    writer.add_token_list([vocab[i] for i in range(size)] + [f"[PAD{i}]" for i in range(size, padded)])
    writer.add_token_types([kind(i) for i in range(size)] + [TokenType.UNUSED] * (padded - size))
    writer.add_token_merges([" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{{ messages }}")


def interleave(weights: np.ndarray, heads: int) -> np.ndarray:
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def write(name: str, arch: str, family: str, model: torch.nn.Module, rope_factors=None) -> None:
    config = model.config
    gpt2 = arch == "gpt2"
    architecture = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == arch)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    path = out / f"{name}.gguf"
    writer = GGUFWriter(str(path), arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_feed_forward_length(4 * config.hidden_size if gpt2 else config.intermediate_size)
    if gpt2:
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if arch == "llama":
        writer.add_rope_dimension_count(config.head_dim)
    if arch == "qwen3":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    tokenizer = tokenizer_of(family)
    add_tokenizer(writer, family, tokenizer, config.vocab_size)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", np.array(rope_factors, dtype=np.float32))
    weights = {key: value for key, value in model.state_dict().items() if not (key == "lm_head.weight" and config.tie_word_embeddings)}
    for key, value in weights.items():
        data = value.numpy()
        if arch == "llama" and ("q_proj" in key or "k_proj" in key):
            data = interleave(data, config.num_attention_heads if "q_proj" in key else config.num_key_value_heads)
        if gpt2 and key.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            data = data.T
        writer.add_tensor(names.get_name(key, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if rope_factors is None:  # transformers does not know that tensor
        loaded = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
        for key, value in weights.items():
            found = loaded[key] if key in loaded else loaded[key.removeprefix("transformer.")]
            assert torch.equal(torch.as_tensor(found), value), key
    save_file({key: value.contiguous() for key, value in weights.items()}, out / f"{name}.safetensors", metadata={"format": "pt"})
    ids = {text: tokenizer.encode(text).ids for text in texts}
    text = {text: tokenizer.decode(found) for text, found in ids.items()}
    golden = {"config": json.loads(config.to_json_string(use_diff=False)), "ids": ids, "decoded": text}
    (out / f"{name}.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


def shake(model: torch.nn.Module) -> torch.nn.Module:
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    return model


torch.manual_seed(20)
size = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=304, max_position_embeddings=64)
write("smollm", "llama", "smollm", shake(LlamaForCausalLM(LlamaConfig(**size, num_key_value_heads=1, rms_norm_eps=1e-5, tie_word_embeddings=True,
      rope_parameters={"rope_type": "default", "rope_theta": 100000.0}))))
llama3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
model = LlamaForCausalLM(LlamaConfig(**{**size, "num_attention_heads": 1}, num_key_value_heads=1, tie_word_embeddings=False, rope_parameters=llama3))
default = 1 / 500000.0 ** (torch.arange(0, 16, 2) / 16)
write("llama3", "llama", "llama-bpe", shake(model), (default / model.model.rotary_emb.inv_freq).tolist())
write("qwen2", "qwen2", "qwen2", shake(Qwen2ForCausalLM(Qwen2Config(**size, num_key_value_heads=1, tie_word_embeddings=True,
      rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}))))
write("qwen3", "qwen3", "qwen2", shake(Qwen3ForCausalLM(Qwen3Config(**size, num_key_value_heads=2, head_dim=12, tie_word_embeddings=False,
      rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}))))
write("gpt2", "gpt2", "gpt-2", shake(GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=64, vocab_size=304))))
