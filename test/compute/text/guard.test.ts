import { expect, test } from "vitest";
import { integer, rng } from "../../../src/random.ts";
import type { Message } from "../../../src/types.ts";
import { FAMILIES, WEATHER, rendererOf } from "../../fakes/chat-families.ts";
import { TINY_SPECIALS } from "../../fakes/tiny-tokenizer.ts";

/** Special tokens, their pieces, the guard's own markers, and what JSON and templates treat as special. */
const PIECES = [
  ...TINY_SPECIALS,
  ...TINY_SPECIALS.flatMap((text) => [text.slice(0, 3), text.slice(3), text.slice(0, -1), text.slice(-2)]),
  ..."\ufdd0\ufdd1 \na\"\\<>|",
];

test.each(FAMILIES)("%s: no text made of pieces of special tokens yields one, and none changes", (family) => {
  const renderer = rendererOf(family);
  const { tokenizer } = renderer;
  const special = new Set(tokenizer.specials.map(({ id }) => id));
  const specialIds = (text: (place: number) => string): readonly number[] => {
    const prompt: readonly Message[] = [
      { role: "system", content: `s${text(0)}s` },
      { role: "user", content: `u${text(1)}u` },
    ];
    const { ids, state } = renderer.start(prompt, [{ ...WEATHER, description: text(2) }]);
    const sampled = [...tokenizer.encode("ok"), renderer.stopIds[0]!];
    const turn = { ids: sampled, message: { role: "assistant", content: "ok" }, finish: { type: "eos", id: 0 } } as const;
    const next = renderer.extend(state, turn, [
      { role: "tool", content: `t${text(3)}t` },
      { role: "user", content: `u${text(4)}u` },
    ]);
    expect(next.kind).toBe("extend");
    expect(tokenizer.decode([...ids, ...sampled, ...next.ids])).toBe(next.state.text);
    return [...ids, ...next.ids].filter((id) => special.has(id));
  };
  const right = specialIds(() => "x");
  for (let sample = 0; sample < 25; sample++) {
    const hostile = (place: number): string => {
      const key = rng(1, sample, place);
      return Array.from({ length: 1 + integer(key, 8) }, (_, i) => PIECES[integer(key, PIECES.length, i + 1)]!).join("");
    };
    expect(specialIds(hostile)).toEqual(right);
  }
});
