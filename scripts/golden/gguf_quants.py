"""Golden values of the GGUF block formats: `pip install gguf==0.19.0 numpy`, then run with no arguments.

For each type: <type>.blocks holds the encoded bytes, <type>.values the float32 values that gguf.quants decodes from them.
Q8_0.input holds the floats that were quantised. K-quants cannot be quantised by the package: their blocks are random bytes
with sane half-precision scales. mixed.gguf is a small file with every metadata type and three tensors.
"""
from pathlib import Path

import numpy as np
from gguf import GGUFValueType, GGUFWriter, GGMLQuantizationType as T, quants

out = Path(__file__).resolve().parents[2] / "test" / "golden" / "gguf"
out.mkdir(parents=True, exist_ok=True)
random = np.random.default_rng(20)


def store(name: str, blocks: np.ndarray, kind: T) -> None:
    values = quants.dequantize(blocks, kind).astype("<f4")
    (out / f"{name}.blocks").write_bytes(blocks.tobytes())
    (out / f"{name}.values").write_bytes(values.tobytes())


def scale(count: int) -> np.ndarray:
    return random.uniform(-0.02, 0.02, (count, 1)).astype("<f2").view(np.uint8)


def raw(count: int, size: int) -> np.ndarray:
    return random.integers(0, 256, (count, size), dtype=np.uint8)


floats = random.normal(0, 0.05, (4, 128)).astype(np.float32)
floats[1, 32:64] = 0
for kind in (T.F16, T.BF16, T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1):
    store(kind.name, quants.quantize(floats, kind).view(np.uint8), kind)
(out / "Q8_0.input").write_bytes(floats.astype("<f4").tobytes())

n = 3
store("Q4_K", np.concatenate([scale(n), scale(n), raw(n, 140)], axis=1), T.Q4_K)
store("Q5_K", np.concatenate([scale(n), scale(n), raw(n, 172)], axis=1), T.Q5_K)
store("Q6_K", np.concatenate([raw(n, 208), scale(n)], axis=1), T.Q6_K)

# Halves at the edges of the format, and float32 values whose half rounds to even, under- or overflows.
edges = np.array(
    [0.0, -0.0, 1.0, -2.5, 65504.0, 65519.9, 65520.0, 1e6, 2.0**-14, 2.0**-15, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24, 2.5 * 2.0**-24,
     1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, 0.1, -1e-8, 6.09e-5, np.inf, -np.inf], dtype="<f4")
(out / "half.input").write_bytes(edges.tobytes())
with np.errstate(over="ignore"):
    (out / "half.output").write_bytes(edges.astype("<f2").tobytes())

writer = GGUFWriter(str(out / "mixed.gguf"), "llama")
writer.add_uint8("t.u8", 255)
writer.add_int8("t.i8", -128)
writer.add_uint16("t.u16", 65535)
writer.add_int16("t.i16", -32768)
writer.add_uint32("t.u32", 4294967295)
writer.add_int32("t.i32", -2147483648)
writer.add_float32("t.f32", 0.5)
writer.add_bool("t.bool", True)
writer.add_string("t.string", "héllo 世界")
writer.add_uint64("t.u64", 2**63 + 1)
writer.add_int64("t.i64", -(2**40))
writer.add_float64("t.f64", 0.1)
writer.add_array("t.strings", ["a", "", "ß"])
writer.add_array("t.ints", [1, -2, 3])
writer.add_key_value("t.bools", [True, False], GGUFValueType.ARRAY, GGUFValueType.BOOL)
writer.add_tensor("plain", np.arange(6, dtype=np.float32).reshape(2, 3))
writer.add_tensor("half", np.arange(4, dtype=np.float16).reshape(4) / 4)
writer.add_tensor("blocks", quants.quantize(floats, T.Q8_0), raw_shape=None, raw_dtype=T.Q8_0)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
