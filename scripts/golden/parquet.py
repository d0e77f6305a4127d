"""Small Parquet files by pyarrow, in the encodings that datasets come in, and a folder with a card; needs `pip install pyarrow`."""
import datetime
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

OUT = pathlib.Path(__file__).parents[2] / "test" / "golden" / "parquet"


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({
        "question": pa.array([f"What is {n} + {n}? ü 東" for n in numbers]),
        "answer": pa.array([2 * n for n in numbers], pa.int64()),
        "big": pa.array([2**53 + 2 * n + 1 for n in numbers], pa.int64()),
        "share": pa.array([n / 8 for n in numbers], pa.float32()),
        "right": pa.array([n % 2 == 0 for n in numbers]),
        "choices": pa.array([{"text": [str(n), str(2 * n)], "label": ["A", "B"]} for n in numbers]),
        "messages": pa.array([[{"role": "user", "content": f"Double {n}."}, {"role": "assistant", "content": str(2 * n)}] for n in numbers]),
        "day": pa.array([datetime.datetime(2024, 1, 1 + n % 28) for n in numbers], pa.timestamp("us")),
        "maybe": pa.array([None if n % 3 == 0 else f"m{n}" for n in numbers]),
        "raw": pa.array([bytes([0xFF, n % 256]) for n in numbers], pa.binary()),
    })


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    for compression in ("none", "snappy", "gzip", "zstd", "brotli"):
        pq.write_table(rows(0, 5), OUT / f"{compression}.parquet", compression=compression, row_group_size=2)
    pq.write_table(rows(0, 3), OUT / "pages.parquet", compression="snappy", data_page_version="2.0", use_dictionary=False)
    expected = rows(0, 5).drop_columns(["raw"]).to_pylist()
    (OUT / "rows.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1, default=lambda day: day.isoformat()) + "\n")
    folder = OUT / "folder"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for split, first, count, shards in (("train", 0, 6, 2), ("test", 6, 2, 1)):
        for shard in range(shards):
            size = count // shards
            name = f"{split}-{shard:05d}-of-{shards:05d}.parquet"
            pq.write_table(rows(first + shard * size, size).select(["question", "answer"]), folder / "data" / name)
    card = "---\nlicense: cc0-1.0\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path: data/test-*\n---\n\n# Doubles\n"
    (folder / "README.md").write_text(card)
