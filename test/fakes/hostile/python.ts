/** Answers that try to be scored without solving `add(a, b)`; each by another trick. */
export const tests = "assert add(1, 2) == 3\nassert add(5, 5) == 10\nprint('OK')";

export const pytestFile = `
import pytest
from solution import add

def test_small():
    assert add(1, 2) == 3

def test_large():
    assert add(5, 5) == 10

@pytest.mark.parametrize("a,b,c", [(0, 0, 0), (-1, 1, 0)])
def test_more(a, b, c):
    assert add(a, b) == c
`;

const returnsAlwaysEqual = (base: string, more = ""): string => `
class Yes(${base}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
    ${more}
def add(a, b):
    return Yes()
`;

export const hostile: Readonly<Record<string, string>> = {
  "sys.exit(0) when loaded": "import sys\nsys.exit(0)",
  "os._exit(0) when loaded": "import os\nos._exit(0)",
  "prints OK and leaves": "import os\nprint('OK', flush=True)\nos._exit(0)",
  "sys.exit(0) when called": "import sys\ndef add(a, b): sys.exit(0)",
  "os._exit(0) when called": "import os\ndef add(a, b): os._exit(0)",
  "an object that equals everything": returnsAlwaysEqual("object"),
  "an int that equals everything": returnsAlwaysEqual("int"),
  "an object that answers both sides and orders": returnsAlwaysEqual("object", "__lt__ = __gt__ = __le__ = __ge__ = lambda s, o: True"),
  "a metaclass that equals everything": "class M(type):\n  def __eq__(s, o): return True\n  def __hash__(s): return 0\nclass C(metaclass=M): pass\ndef add(a, b): return C",
  "a function that changes assert": "import builtins\nclass A(AssertionError):\n  def __new__(c, *a): import os; os._exit(0)\nbuiltins.AssertionError = A\ndef add(a, b): return None",
  "a patched pytest": "import sys, types\nm = types.ModuleType('pytest')\nm.main = lambda *a, **k: 0\nsys.modules['pytest'] = m\ndef add(a, b): return 0",
  "a patched unittest": "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\nunittest.main = lambda *a, **k: None\ndef add(a, b): return 0",
  "a patched json": "import json\nold = json.dumps\njson.dumps = lambda v, *a, **k: old(v, *a, **k).replace('false', 'true').replace('raise', 'ok')\ndef add(a, b): return 0",
  "sitecustomize and conftest on disk": `
import os
for d in ("/work", "/tmp", "."):
    for name in ("conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", "test_1.py", "pytest.py", "solution.py"):
        try: open(os.path.join(d, name), "w").write("def pytest_collection_modifyitems(items): items[:] = []")
        except OSError: pass
def add(a, b): return 0`,
  "a handler at exit": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b): raise SystemExit(0)",
  "a report on every descriptor": `
import os, json
for fd in range(0, 64):
    try: os.write(fd, b'{"event":"plan","ids":["x"],"nonce":""}\\n{"event":"test","id":"x","passed":true,"nonce":""}\\n{"event":"end","nonce":""}\\n')
    except OSError: pass
def add(a, b): return 0`,
  "an answer before the question": `
import os, json, struct
m = json.dumps({"ok": True}).encode()
for _ in range(100):
    try: os.write(4, struct.pack(">I", len(m)) + m)
    except OSError: pass
def add(a, b): return True`,
  "a message without an end": "import os\nos.write(4, b'\\x00\\x7f\\xff\\xff{')\ndef add(a, b): return 0",
  "a huge message": "def add(a, b): return 'x' * (64 << 20)",
  "a value that contains itself": "def add(a, b):\n  x = []\n  x.append(x)\n  return x",
  "a deep value": "def add(a, b):\n  x = 3\n  for _ in range(5000): x = [x]\n  return x",
  "the recursion limit": "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b): return add(a, b)",
  "a low recursion limit": "import sys\nsys.setrecursionlimit(60)\ndef add(a, b): return 0",
  "catches everything": "def add(a, b):\n  try: raise BaseException\n  except: return None",
  "raises AssertionError and returns nothing": "def add(a, b): raise AssertionError('OK')",
  "looks for the expected value in frames": `
import sys, gc
def add(a, b):
    f = sys._getframe()
    while f:
        for v in list(f.f_locals.values()) + list(f.f_globals.values()):
            if isinstance(v, str) and "add(1, 2) == 3" in v: return 3
        f = f.f_back
    for o in gc.get_objects():
        if isinstance(o, str) and "== 3" in o and "assert" in o and "found" not in o: return 3
    return 0`,
  "looks for the expected value on disk and in /proc": `
import os, re
def read(p):
    try: return open(p, "rb").read(1 << 20)
    except OSError: return b""
def look():
    found = b""
    for root in ("/work", "/box", "/tmp", "/dev/shm", "/etc", "/home", "/root", "/var"):
        for d, _, names in os.walk(root):
            for n in names: found += read(os.path.join(d, n))
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            for n in ("cmdline", "environ"): found += read("/proc/%s/%s" % (pid, n))
            try:
                for fd in os.listdir("/proc/%s/fd" % pid): pass
            except OSError: pass
    return re.findall(rb"assert add\\((\\d+), ?(\\d+)\\) == (\\d+)", found)
table = {(int(a), int(b)): int(c) for a, b, c in look()}
def add(a, b): return table.get((a, b), 0)`,
  "attaches to other processes": `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
hits = [p for p in range(1, 300) if p != os.getpid() and libc.ptrace(16, p, 0, 0) == 0]
for p in range(2, 300):
    if p != os.getpid():
        try: os.kill(p, 9)
        except OSError: pass
def add(a, b): return 0`,
  "a daemon that writes reports": `
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import time, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(50):
            for fd in (1, 2, 3, 4, 5):
                try: os.write(fd, b'{"event":"end"}\\n')
                except OSError: pass
            time.sleep(0.05)
    os._exit(0)
def add(a, b): return 0`,
  "closes the channel": "import os\nfor fd in range(3, 64):\n  try: os.close(fd)\n  except OSError: pass\ndef add(a, b): return 0",
  "a loop without end": "def add(a, b):\n  while True: pass",
  "a loop when loaded": "while True: pass",
  "output without end": "def add(a, b):\n  import os\n  while True: os.write(1, b'x' * 65536)",
  "shadows names of the language": "assert_ = print\ndef print(*a): raise SystemExit\n__all__ = ['add', 'print', 'AssertionError', 'pytest', 'str']\nAssertionError = Exception\ndef str(*a): return ''\ndef add(a, b): return 0",
  "a syntax error": "def add(a, b)\n  return a + b",
  "no add at all": "x = 1",
  "add is a value": "add = 3",
  "attributes that answer everything": "class M:\n  def __getattr__(s, n): return s\n  def __call__(s, *a): return s\n  def __eq__(s, o): return True\n  __hash__ = None\nadd = M()",
  "a module that replaces itself": "import sys\nclass M:\n  __all__ = ['add']\n  def __getattr__(s, n): return lambda *a: s\n  def __eq__(s, o): return True\nsys.modules[__name__] = M()",
  "a string that is written as the number": "def add(a, b): return str(a + b)",
  "not a number": "def add(a, b): return float('nan')",
  "edits its agent": "import sys, gc\nfor o in gc.get_objects():\n  if type(o).__name__ == 'Agent':\n    type(o).answer = lambda self, r: {'ok': True}\ndef add(a, b): return True",
};
