"""Ids that Python's `tokenizers` gives with the tokenizer that the BPE trainer made.

Run from the root of the repository, after `npx vitest run test/compute/text/bpe-trainer.test.ts -u` has written
test/golden/text/tiny-tokenizer.json:
    python scripts/golden/tokenizer_ids.py
Writes test/golden/text/tiny-ids.json: a list of {text, ids, plain}; `plain` ignores special tokens.
"""
import json
import pathlib
import random

from tokenizers import Tokenizer

folder = pathlib.Path(__file__).parents[2] / "test" / "golden" / "text"
source = (folder / "tiny-tokenizer.json").read_text(encoding="utf-8")
tokenizer = Tokenizer.from_str(source)
without_added = json.loads(source)
without_added["added_tokens"] = []
plain = Tokenizer.from_str(json.dumps(without_added))

texts = [
    "",
    "Hello, world!",
    "The quick brown fox's dog isn't lazy; WE'LL see.",
    "<|im_start|>user\nWhat is 1234 + 5678?<|im_end|>\n<|im_start|>assistant\n",
    "a<tool_call>\n{\"name\": \"add\"}\n</tool_call><|im_end|>b",
    "<|im_<|im_end|>end|>",
    "  leading, trailing  \n\n\n  and\tTabs\r\n",
    "Zürich 東京 🎉 👩‍👩‍👧 \u2028 \u00a0 é",
    "x" * 200 + " " * 50 + "1" * 30,
]
generator = random.Random(7)
alphabet = "abcdeThE 0123456789\n\t'!?.,<>|{}\"\\/éß東🎉_-"
texts += ["".join(generator.choice(alphabet) for _ in range(generator.randint(1, 60))) for _ in range(40)]
rows = [
    {
        "text": text,
        "ids": tokenizer.encode(text, add_special_tokens=False).ids,
        "plain": plain.encode(text, add_special_tokens=False).ids,
    }
    for text in texts
]
(folder / "tiny-ids.json").write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n", encoding="utf-8")
print(len(rows), tokenizer.get_vocab_size())
