"""Graphs by RDFLib and pySHACL: isomorphism with blank nodes, shared triples, SHACL conformance, SPARQL rows.

    pip install rdflib pyshacl
    python scripts/golden/graphs.py > test/golden/graphs.json
"""

import itertools
import json
import random

import pyshacl
import rdflib
from rdflib.compare import isomorphic

PREFIX = "@prefix : <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"


def graph(text):
    return rdflib.Graph(store="Memory").parse(data=PREFIX + text, format="turtle")


def shared(a, b):
    """The largest number of equal triples over all assignments of blank nodes, by trying every one."""
    left, right = (sorted({t for s in g for t in s if isinstance(t, rdflib.BNode)}) for g in (a, b))
    if len(left) > len(right):
        return shared(b, a)
    triples = set(b)
    best = 0
    for chosen in itertools.permutations(right, len(left)):
        names = dict(zip(left, chosen))
        best = max(best, sum(tuple(names.get(t, t) for t in triple) in triples for triple in a))
    return best


PAIRS = [
    (":a :p :b .", ":a :p :b ."),
    (":a :p :b . :a :p :c .", ":a :p :c . :a :p :b ."),
    (":a :p :b .", ":b :p :a ."),
    (":a :p _:x . _:x :q 1 .", ":a :p _:y . _:y :q 1 ."),
    (":a :p _:x . _:x :q 1 .", ":a :p _:y . _:z :q 1 ."),
    (":a :p [ :q 1 ; :r 2 ] .", ":a :p [ :r 2 ; :q 1 ] ."),
    (":a :p [ :q 1 ], [ :q 2 ] .", ":a :p [ :q 2 ], [ :q 1 ] ."),
    (":a :p [ :q 1 ; :r 2 ], [ :q 2 ; :r 1 ] .", ":a :p [ :q 1 ; :r 1 ], [ :q 2 ; :r 2 ] ."),
    ("_:a :n _:b . _:b :n _:c . _:c :n _:a .", "_:x :n _:y . _:y :n _:z . _:z :n _:x ."),
    ("_:a :n _:b . _:b :n _:c . _:c :n _:a .", "_:x :n _:y . _:y :n _:x . _:z :n _:z ."),
    ("_:a :n _:b, _:c . _:d :n _:b, _:c .", "_:a :n _:b . _:b :n _:c . _:c :n _:d . _:d :n _:a ."),
    (':a :p "x"@en .', ':a :p "x" .'),
    (':a :p "1"^^xsd:integer .', ':a :p 1 .'),
    (":a :list (1 2 3) .", ":a :list (1 2 3) ."),
    (":a :list (1 2 3) .", ":a :list (1 3 2) ."),
    (":a :list (1 2 3) .", ":a :list (1 2) ."),
    (":a :p :b, :c, :d .", ":a :p :b, :c, :e, :f ."),
    ("_:a :p :b .", ":a :p :b ."),
]
# Where the package and RDFLib differ: RDFLib makes "01" the integer 1, and it keeps the case of language tags and holds xsd:string apart
# from a plain text, which RDF 1.1 does not.
DIFFERENT = [(':a :p "x"^^xsd:string .', ':a :p "x" .'), (':a :p "x"@en .', ':a :p "x"@EN .'), (':a :p "01"^^xsd:integer .', ':a :p "1"^^xsd:integer .'), (':a :p "1.0"^^xsd:decimal .', ':a :p "1.00"^^xsd:decimal .')]

random.seed(7)


def random_pair():
    def triple():
        term = lambda: random.choice(["_:a", "_:b", "_:c", "_:d", ":x", ":y"])
        return f"{term()} {random.choice([':p', ':q'])} {term()} ."
    a = [triple() for _ in range(random.randint(3, 7))]
    b = [t for t in a if random.random() < 0.7] + [triple() for _ in range(random.randint(0, 3))]
    names = dict(zip(["_:a", "_:b", "_:c", "_:d"], random.sample(["_:k", "_:l", "_:m", "_:n"], 4)))
    renamed = [" ".join(names.get(word, word) for word in t.split()) for t in b]
    return " ".join(a), " ".join(renamed or [triple()])


def pair_case(a, b):
    left, right = graph(a), graph(b)
    return {"gold": PREFIX + a, "answer": PREFIX + b, "isomorphic": isomorphic(left, right), "shared": shared(left, right),
            "triples": [len(left), len(right)]}


SHAPES = PREFIX + """@prefix sh: <http://www.w3.org/ns/shacl#> .
:PersonShape a sh:NodeShape ; sh:targetClass :Person ;
  sh:property [ sh:path :name ; sh:datatype xsd:string ; sh:minCount 1 ; sh:maxCount 1 ] ;
  sh:property [ sh:path :age ; sh:datatype xsd:integer ; sh:minInclusive 0 ; sh:maxInclusive 150 ] ;
  sh:property [ sh:path :knows ; sh:class :Person ; sh:nodeKind sh:BlankNodeOrIRI ] ;
  sh:property [ sh:path :status ; sh:in ("on" "off") ] ;
  sh:closed true ; sh:ignoredProperties ( <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> ) .
"""
DATA = [
    ':a a :Person ; :name "Ann" ; :age 30 .',
    ':a a :Person ; :age 30 .',
    ':a a :Person ; :name "Ann", "Anna" .',
    ':a a :Person ; :name "Ann" ; :age 200 .',
    ':a a :Person ; :name "Ann" ; :age "30" .',
    ':a a :Person ; :name "Ann" ; :knows [ a :Person ; :name "Bob" ] .',
    ':a a :Person ; :name "Ann" ; :knows [ :name "Bob" ] .',
    ':a a :Person ; :name "Ann" ; :knows [ a :Person ] .',
    ':a a :Person ; :name "Ann" ; :status "on" .',
    ':a a :Person ; :name "Ann" ; :status "maybe" .',
    ':a a :Person ; :name "Ann" ; :extra 1 .',
    ':a a :Person ; :name "Ann"@en .',
    ':x :p :y .',
    '[] a :Person ; :name "Nobody" .',
    ':a a :Person ; :name "Ann" ; :age -1 .',
]


def shacl_case(data):
    conforms, _, _ = pyshacl.validate(graph(data), shacl_graph=rdflib.Graph().parse(data=SHAPES, format="turtle"), inference="none")
    return {"answer": PREFIX + data, "conforms": conforms}


STORE = ':a :age 30 ; :knows :b, :c . :b :age 25 ; :knows :c . :c :age 40 . [] :age 25 .'
QUERIES = [
    "SELECT ?p WHERE { ?p :age ?n FILTER(?n > 26) }",
    "SELECT (COUNT(*) AS ?n) WHERE { ?p :age ?x }",
    "SELECT ?p ?q WHERE { ?p :knows ?q }",
    "SELECT ?p (SUM(?n) AS ?s) WHERE { ?p :knows/:age ?n } GROUP BY ?p",
    "SELECT ?p WHERE { ?p :knows+ :c }",
    "SELECT DISTINCT ?n WHERE { ?p :age ?n }",
]


def query_case(query):
    text = "PREFIX : <http://example.org/> " + query
    rows = [{str(name): term.n3() if not isinstance(term, rdflib.Literal) else literal(term) for name, term in row.asdict().items()}
            for row in graph(STORE).query(text)]
    return {"query": text, "rows": rows}


def literal(term):
    return json.dumps(str(term)) + (f"^^<{term.datatype}>" if term.datatype else "")


print(json.dumps({
    "rdflib": rdflib.__version__, "pyshacl": pyshacl.__version__,
    "pairs": [pair_case(a, b) for a, b in PAIRS + [random_pair() for _ in range(60)]],
    "different": [pair_case(a, b) for a, b in DIFFERENT],
    "shapes": SHAPES, "shacl": [shacl_case(data) for data in DATA],
    "data": PREFIX + STORE, "queries": [query_case(query) for query in QUERIES],
}, indent=1))
