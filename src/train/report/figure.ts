/** All charts of a run on one sheet, as one SVG, and that SVG as PNG. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { Resvg, initWasm } from "@resvg/resvg-wasm";
import { type Chart, FONT, type Palette, chartBody } from "./chart.ts";
import { element, text } from "./svg.ts";

/** Okabe and Ito's colours, which colour-blind readers tell apart, darkened where thin lines on white need it. */
export const LIGHT: Palette = {
  ink: "#1b1f24",
  muted: "#5c6570",
  grid: "#e6e9ed",
  paper: "#ffffff",
  series: ["#0072b2", "#d55e00", "#009e73", "#b0609a", "#8a6d00", "#3f9fd8", "#555555"],
};

const WIDTH = 1200;
const CELL_HEIGHT = 300;
const HEAD = 72;
const GAP = 16;
/** Height of a line of notes, and the characters that surely fit into it. */
const LINE = 18;
const LINE_LENGTH = 180;

/** Two charts a row, 1200 px wide; `notes` stand below them. */
export function figureSvg(title: string, subtitle: string, charts: readonly Chart[], notes: readonly string[] = []): string {
  const cell = (WIDTH - 3 * GAP) / 2;
  const rows = Math.max(1, Math.ceil(charts.length / 2));
  const below = notes.flatMap((note) => wrapped(note));
  const end = HEAD + rows * (CELL_HEIGHT + GAP);
  const height = end + (below.length === 0 ? 0 : below.length * LINE + GAP);
  const cells = charts.map((chart, i) => {
    const alone = i === charts.length - 1 && i % 2 === 0;
    const width = alone ? WIDTH - 2 * GAP : cell;
    const place = `translate(${GAP + (i % 2) * (cell + GAP)} ${HEAD + Math.floor(i / 2) * (CELL_HEIGHT + GAP)})`;
    const card = element("rect", { width, height: CELL_HEIGHT, rx: 8, fill: LIGHT.paper, stroke: LIGHT.grid });
    return element("g", { transform: place }, card + chartBody(chart, { width, height: CELL_HEIGHT, palette: LIGHT }));
  });
  const content = [
    element("rect", { width: WIDTH, height, fill: "#f6f7f9" }),
    text({ x: GAP + 4, y: 36, size: 24, weight: 700, fill: LIGHT.ink }, title),
    text({ x: GAP + 4, y: 58, size: 14, fill: LIGHT.muted }, subtitle),
    ...cells,
    ...below.map((line, i) => text({ x: GAP + 4, y: end + 14 + i * LINE, fill: LIGHT.muted }, line)),
  ];
  const attributes = { xmlns: "http://www.w3.org/2000/svg", width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, "font-family": FONT };
  return element("svg", attributes, `\n${content.join("\n")}\n`);
}

function wrapped(note: string): string[] {
  const lines: string[] = [];
  for (const word of note.split(" ")) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + word.length < LINE_LENGTH) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(line === undefined ? word : `    ${word}`);
  }
  return lines;
}

/** The WebAssembly module refuses a second start in one process. */
let started: Promise<void> | null = null;

/** Draws with the Lato font alone, so that the picture is the same on every machine. */
export async function svgToPng(svg: string): Promise<Uint8Array> {
  const require = createRequire(import.meta.url);
  started ??= readFile(require.resolve("@resvg/resvg-wasm/index_bg.wasm")).then((bytes) => initWasm(bytes));
  await started;
  const faces = ["400Regular/Lato_400Regular.ttf", "700Bold/Lato_700Bold.ttf"];
  const fontBuffers = await Promise.all(faces.map((face) => readFile(require.resolve(`@expo-google-fonts/lato/${face}`))));
  const resvg = new Resvg(svg, { font: { fontBuffers, defaultFontFamily: "Lato", sansSerifFamily: "Lato" } });
  const image = resvg.render();
  const png = image.asPng();
  image.free();
  resvg.free();
  return png;
}
