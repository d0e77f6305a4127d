/**
 * The published numbers of QED, the quantitative estimate of drug-likeness: Bickerton et al. 2012, Nature Chemistry 4, 90-98,
 * doi:10.1038/nchem.1243: the desirability functions, their mean weights and the structural alerts, in the revision that RDKit uses
 * (rdkit/Chem/QED.py). Those tables: Copyright (c) 2009-2017, Novartis Institutes for BioMedical Research Inc., BSD 3-Clause; the notice
 * is in NOTICE.
 */

export type QedProperty = "weight" | "logP" | "acceptors" | "donors" | "tpsa" | "rotatable" | "aromatic" | "alerts";

export interface Desirability {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
  readonly e: number;
  readonly f: number;
  readonly most: number;
  /** Of the mean weights. */
  readonly importance: number;
}

export const DESIRABILITY: { readonly [P in QedProperty]: Desirability } = {
  weight: {
    a: 2.817065973, b: 392.5754953, c: 290.7489764, d: 2.419764353, e: 49.22325677, f: 65.37051707, most: 104.9805561,
    importance: 0.66,
  },
  logP: {
    a: 3.172690585, b: 137.8624751, c: 2.534937431, d: 4.581497897, e: 0.822739154, f: 0.576295591, most: 131.3186604,
    importance: 0.46,
  },
  acceptors: {
    a: 2.948620388, b: 160.4605972, c: 3.615294657, d: 4.435986202, e: 0.290141953, f: 1.300669958, most: 148.7763046,
    importance: 0.05,
  },
  donors: {
    a: 1.618662227, b: 1010.051101, c: 0.985094388, d: 1e-09, e: 0.713820843, f: 0.920922555, most: 258.1632616,
    importance: 0.61,
  },
  tpsa: {
    a: 1.876861559, b: 125.2232657, c: 62.90773554, d: 87.83366614, e: 12.01999824, f: 28.51324732, most: 104.5686167,
    importance: 0.06,
  },
  rotatable: {
    a: 0.01, b: 272.4121427, c: 2.55837997, d: 1.565547684, e: 1.271567166, f: 2.758063707, most: 105.4420403,
    importance: 0.65,
  },
  aromatic: {
    a: 3.21778897, b: 957.7374108, c: 2.274627939, d: 1e-09, e: 1.317690384, f: 0.375760881, most: 312.337261,
    importance: 0.48,
  },
  alerts: {
    a: 0.01, b: 1199.094025, c: -0.09002883, d: 1e-09, e: 0.185904477, f: 0.875193782, most: 417.725314,
    importance: 0.95,
  },
};

/** Hydrogen-bond acceptors; their matches are added up. */
export const ACCEPTORS: readonly string[] = [
  "[oH0;X2]", "[OH1;X2;v2]", "[OH0;X2;v2]", "[OH0;X1;v2]", "[O-;X1]", "[SH0;X2;v2]", "[SH0;X1;v2]", "[S-;X1]", "[nH0;X2]", "[NH0;X1;v3]",
  "[$([N;+0;X3;v3]);!$(N[C,S]=O)]",
];

/** Ring atoms that are taken away before aromatic rings are counted. */
export const ALIPHATIC_RINGS = "[$([A;R][!a])]";

/** Unwanted groups; each counts once. */
export const ALERTS: readonly string[] = [
  "*1[O,S,N]*1", "[S,C](=[O,S])[F,Br,Cl,I]", "[CX4][Cl,Br,I]", "[#6]S(=O)(=O)O[#6]", "[$([CH]),$(CC)]#CC(=O)[#6]",
  "[$([CH]),$(CC)]#CC(=O)O[#6]", "n[OH]", "[$([CH]),$(CC)]#CS(=O)(=O)[#6]", "C=C(C=O)C=O", "n1c([F,Cl,Br,I])cccc1", "[CH1](=O)",
  "[#8][#8]", "[C;!R]=[N;!R]", "[N!R]=[N!R]", "[#6](=O)[#6](=O)", "[#16][#16]", "[#7][NH2]", "C(=O)N[NH2]", "[#6]=S",
  "[$([CH2]),$([CH][CX4]),$(C([CX4])[CX4])]=[$([CH2]),$([CH][CX4]),$(C([CX4])[CX4])]", "C1(=[O,N])C=CC(=[O,N])C=C1",
  "C1(=[O,N])C(=[O,N])C=CC=C1", "a21aa3a(aa1aaaa2)aaaa3", "a31a(a2a(aa1)aaaa2)aaaa3", "a1aa2a3a(a1)A=AA=A3=AA=A2", "c1cc([NH2])ccc1",
  "[Hg,Fe,As,Sb,Zn,Se,se,Te,B,Si,Na,Ca,Ge,Ag,Mg,K,Ba,Sr,Be,Ti,Mo,Mn,Ru,Pd,Ni,Cu,Au,Cd,Al,Ga,Sn,Rh,Tl,Bi,Nb,Li,Pb,Hf,Ho]", "I",
  "OS(=O)(=O)[O-]", "[N+](=O)[O-]", "C(=O)N[OH]", "C1NC(=O)NC(=O)1", "[SH]", "[S-]", "c1ccc([Cl,Br,I,F])c([Cl,Br,I,F])c1[Cl,Br,I,F]",
  "c1cc([Cl,Br,I,F])cc([Cl,Br,I,F])c1[Cl,Br,I,F]", "[CR1]1[CR1][CR1][CR1][CR1][CR1][CR1]1", "[CR1]1[CR1][CR1]cc[CR1][CR1]1",
  "[CR2]1[CR2][CR2][CR2][CR2][CR2][CR2][CR2]1", "[CR2]1[CR2][CR2]cc[CR2][CR2][CR2]1", "[CH2R2]1N[CH2R2][CH2R2][CH2R2][CH2R2][CH2R2]1",
  "[CH2R2]1N[CH2R2][CH2R2][CH2R2][CH2R2][CH2R2][CH2R2]1", "C#C", "[OR2,NR2]@[CR2]@[CR2]@[OR2,NR2]@[CR2]@[CR2]@[OR2,NR2]",
  "[$([N+R]),$([n+R]),$([N+]=C)][O-]", "[#6]=N[OH]", "[#6]=NOC=O", "[#6](=O)[CX4,CR0X3,O][#6](=O)", "c1ccc2c(c1)ccc(=O)o2",
  "[O+,o+,S+,s+]", "N=C=O", "[NX3,NX4][F,Cl,Br,I]", "c1ccccc1OC(=O)[#6]", "[CR0]=[CR0][CR0]=[CR0]", "[C+,c+,C-,c-]", "N=[N+]=[N-]",
  "C12C(NC(N1)=O)CSC2", "c1c([OH])c([OH,NH2,NH])ccc1", "P", "[N,O,S]C#N", "C=C=O", "[Si][F,Cl,Br,I]", "[SX2]O",
  "[SiR0,CR0](c1ccccc1)(c2ccccc2)(c3ccccc3)", "O1CCCCC1OC2CCC3CCCCC3C2", "N=[CR0][N,n,O,S]",
  "[cR2]1[cR2][cR2]([Nv3X3,Nv4X4])[cR2][cR2][cR2]1[cR2]2[cR2][cR2][cR2]([Nv3X3,Nv4X4])[cR2][cR2]2", "C=[C!r]C#N",
  "[cR2]1[cR2]c([N+0X3R0,nX3R0])c([N+0X3R0,nX3R0])[cR2][cR2]1", "[cR2]1[cR2]c([N+0X3R0,nX3R0])[cR2]c([N+0X3R0,nX3R0])[cR2]1",
  "[cR2]1[cR2]c([N+0X3R0,nX3R0])[cR2][cR2]c1([N+0X3R0,nX3R0])", "[OH]c1ccc([OH,NH2,NH])cc1", "c1ccccc1OC(=O)O", "[SX2H0][N]",
  "c12ccccc1(SC(S)=N2)", "c12ccccc1(SC(=S)N2)", "c1nnnn1C=O", "s1c(S)nnc1NC=O", "S1C=CSC1=S", "C(=O)Onnn", "OS(=O)(=O)C(F)(F)F",
  "N#CC[OH]", "N#CC(=O)", "S(=O)(=O)C#N", "N[CH2]C#N", "C1(=O)NCC1", "S(=O)(=O)[O-,OH]", "NC[F,Cl,Br,I]", "C=[C!r]O", "[NX2+0]=[O+0]",
  "[OR0,NR0][OR0,NR0]", "C(=O)O[C,H1].C(=O)O[C,H1].C(=O)O[C,H1]", "[CX2R0][NX3R0]", "c1ccccc1[C;!R]=[C;!R]c2ccccc2",
  "[NX3R0,NX4R0,OR0,SX2R0][CX4][NX3R0,NX4R0,OR0,SX2R0]",
  "[s,S,c,C,n,N,o,O]~[n+,N+](~[s,S,c,C,n,N,o,O])(~[s,S,c,C,n,N,o,O])~[s,S,c,C,n,N,o,O]",
  "[s,S,c,C,n,N,o,O]~[nX3+,NX3+](~[s,S,c,C,n,N])~[s,S,c,C,n,N]", "[*]=[N+]=[*]", "[SX3](=O)[O-,OH]", "N#N", "F.F.F.F",
  "[R0;D2][R0;D2][R0;D2][R0;D2]", "[cR,CR]~C(=O)NC(=O)~[cR,CR]", "C=!@CC=[O,S]", "[#6,#8,#16][#6](=O)O[#6]", "c[C;R0](=[O,S])[#6]",
  "c[SX2][C;!R]", "C=C=C", "c1nc([F,Cl,Br,I,S])ncc1", "c1ncnc([F,Cl,Br,I,S])c1", "c1nc(c2c(n1)nc(n2)[F,Cl,Br,I])",
  "[#6]S(=O)(=O)c1ccc(cc1)F", "[15N]", "[13C]", "[18O]", "[34S]",
];
