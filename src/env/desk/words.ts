/** Names of the desk environment. No word of a name in one split is in a name of the other. */
import type { Split } from "../../types.ts";

export interface WordList {
  readonly adjectives: readonly string[];
  readonly items: readonly string[];
  readonly firstNames: readonly string[];
  readonly lastNames: readonly string[];
  readonly rooms: readonly string[];
  readonly codeLetters: readonly string[];
}

export const WORDS: { readonly [S in Split]: WordList } = {
  train: {
    adjectives: ["blue", "red", "green", "black", "white", "grey", "small", "large", "plain", "soft"],
    items: ["toner", "paper", "lamp", "chair", "folder", "marker", "cable", "stamp", "tape", "mouse", "clock", "ruler"],
    firstNames: ["Ana", "Ben", "Carl", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jon"],
    lastNames: ["Holt", "Marsh", "Reed", "Stone", "Wood", "Cole", "Finch", "Grant"],
    rooms: ["Elm", "Oak", "Pine", "Ash", "Fir"],
    codeLetters: ["B", "D", "F", "H", "K", "M", "P", "R"],
  },
  test: {
    adjectives: ["brown", "pink", "gold", "silver", "long", "thin"],
    items: ["ink", "envelope", "binder", "clip", "pen", "tray", "label", "glue"],
    firstNames: ["Kira", "Leo", "Mina", "Nils", "Omar", "Pia"],
    lastNames: ["Vale", "Ward", "York", "Quinn", "Nash", "Boyd"],
    rooms: ["Birch", "Cedar", "Maple"],
    codeLetters: ["C", "G", "L", "T"],
  },
};
