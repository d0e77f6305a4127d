"""Molecules by Python RDKit: validity, canonical SMILES, InChI, properties, QED, synthetic accessibility, Morgan similarity.

    pip install rdkit
    python scripts/golden/molecules.py > test/golden/molecules.json
"""

import json
import os
import sys

from rdkit import Chem, DataStructs, RDConfig, RDLogger, rdBase
from rdkit.Chem import Crippen, Descriptors, QED, rdFingerprintGenerator, rdMolDescriptors

sys.path.append(os.path.join(RDConfig.RDContribDir, "SA_Score"))
import sascorer

RDLogger.DisableLog("rdApp.*")

SMILES = """
CC(=O)Oc1ccccc1C(=O)O
CN1C=NC2=C1C(=O)N(C(=O)N2C)C
CC(C)Cc1ccc(cc1)C(C)C(=O)O
CCO
OCC
C1CCCCC1
c1ccccc1
C1=CC=CC=C1
N[C@@H](C)C(=O)O
N[C@H](C)C(=O)O
NC(C)C(=O)O
C/C=C/C
C/C=C\\C
CC=CC
F[C@](Cl)(Br)I
Oc1ccccn1
O=c1cccc[nH]1
CC(=O)CC(C)=O
CC(O)=CC(C)=O
c1c[nH]cn1
Cc1c[nH]cn1
Cc1cnc[nH]1
[13CH4]
[2H]C([2H])([2H])O
[Na+].[Cl-]
CC(=O)[O-].[Na+]
C[N+](C)(C)CC([O-])=O
O=[N+]([O-])c1ccccc1
N=C(CCSCc1csc(N=C(N)N)n1)NS(N)(=O)=O
CNC(=NCCSCc1nc[nH]c1C)NC#N
CCCCCNC(=N)NN=Cc1c[nH]c2ccc(CO)cc12
N1C2=CC=CC=C2SC3=C1C=CC4=C3C=CC=C4
OC1=C(O)C=C2C(=C1)OC3=CC(=O)C(=CC3=C2C4=CC=CC=C4)O
CC(C)C1=CC2=C(C)C=CC2=C(C)C=C1
CC1(C)SC2C(NC(=O)Cc3ccccc3)C(=O)N2C1C(=O)O
CN1CCC[C@H]1c1cccnc1
CC12CCC3C(CCc4cc(O)ccc43)C1CCC2O
C1CC2CCC1C2
C12C3C4C1C5C2C3C45
O=C(O)c1ccc(S(=O)(=O)F)cc1
CCCCCCCCCCCCCCCC(=O)O
FC(F)(F)c1cc(cc(c1)C(F)(F)F)C(=O)N
OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O
C#CC(=O)C
c1ccc2c(c1)ccc1ccccc12
CSSC
""".split()
INVALID = ["C1CC", "C(C)(C)(C)(C)C", "c1cccc1", "CC(", "xyz", "[Xx]", "N(C)(C)(C)(C)C", "C1=CC=CC=C", "F=F=F", "c1ccccc"]

morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
reference = morgan.GetFingerprint(Chem.MolFromSmiles(SMILES[0]))


def describe(smiles):
    mol = Chem.MolFromSmiles(smiles)
    return {
        "smiles": smiles,
        "canonical": Chem.MolToSmiles(mol),
        "flat": Chem.MolToSmiles(mol, isomericSmiles=False),
        "inchi": Chem.MolToInchi(mol),
        "weight": Descriptors.MolWt(mol),
        "logP": Crippen.MolLogP(mol),
        "tpsa": rdMolDescriptors.CalcTPSA(mol),
        "qed": QED.qed(mol),
        "rings": rdMolDescriptors.CalcNumRings(mol),
        "donors": rdMolDescriptors.CalcNumHBD(mol),
        "acceptors": rdMolDescriptors.CalcNumHBA(mol),
        "rotatable": rdMolDescriptors.CalcNumRotatableBonds(mol),
        "similarity": DataStructs.TanimotoSimilarity(reference, morgan.GetFingerprint(mol)),
        "syntheticAccessibility": sascorer.calculateScore(mol),
    }


assert all(Chem.MolFromSmiles(smiles) is None for smiles in INVALID)
cases = {"rdkit": rdBase.rdkitVersion, "molecules": [describe(smiles) for smiles in SMILES], "invalid": INVALID}
print(json.dumps(cases, indent=1))
