"""
The examiner's side: runs the tests in a process that the candidate's code never enters, and reports each test, under a number that only
this run knows, on a channel that the candidate does not have.
"""
import ast
import builtins
import json
import os
import re
import sys

sys.path.insert(0, "/guest/python")
import remote  # noqa: E402

del sys.path[0]

REPORT = 5


class Report:
    def __init__(self, nonce):
        self.nonce = nonce

    def write(self, **line):
        data = (json.dumps(dict(line, nonce=self.nonce)) + "\n").encode()
        while data:
            data = data[os.write(REPORT, data):]

    def test(self, name, passed, message=""):
        self.write(event="test", id=name, passed=passed, message=message[:500])


def describe(error):
    text = "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
    return text[:500]


# ---------------------------------------------------------------------------------------------------- plain tests

def contains_assert(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return False
    return isinstance(node, ast.Assert) or any(contains_assert(child) for child in ast.iter_child_nodes(node))


def split(source, title):
    """The parts of a test text: statements that prepare, and statements that test (an assertion, or a call)."""
    parts = []
    for node in ast.parse(source).body:
        is_test = contains_assert(node) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        text = ast.unparse(node).split("\n")[0][:120]
        parts.append((node, "%s:%d %s" % (title, node.lineno, text) if is_test else None))
    return parts


def functions_of(parts):
    return [node.name for node, _ in parts if isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not node.args.args]


def free_names(code):
    """Every name that a code object looks up globally, its inner functions' too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            names |= free_names(constant)
    return names


def plain(job, report, connection):
    tests = [split(source, "test %d" % (number + 1)) for number, source in enumerate(job["tests"])]
    plan = [[name for _, name in parts if name is not None] + functions_of(parts) for parts in tests]
    if job.get("check") is not None:
        plan[-1].append("check(%s)" % job["check"])
    report.write(event="plan", ids=[name for names in plan for name in names])
    modules, problem = load_candidate(job, connection)
    for number, parts in enumerate(tests):
        scope = {"__name__": "test_%d" % (number + 1), "__builtins__": builtins}
        if problem is not None:
            for name in plan[number]:
                report.test(name, False, problem)
            continue
        last = number == len(tests) - 1
        plain_file(parts, scope, {"job": job, "report": report, "connection": connection, "modules": modules, "last": last})


def load_candidate(job, connection):
    try:
        return [__import__("importlib").import_module(name) for name in job["modules"]], None
    except BaseException as error:
        return [], "importing the candidate's code: " + describe(error)


def plain_file(parts, scope, context):
    job, report, connection = context["job"], context["report"], context["connection"]
    names = set()
    for node, _ in parts:
        names |= free_names(compile(ast.Module([node], []), "<tests>", "exec"))
    if job.get("setup"):
        names |= free_names(compile(job["setup"], "<setup>", "exec"))
    inject(scope, names - set(dir(builtins)), context["modules"])
    broken = attempt(lambda: exec(compile(job["setup"], "<setup>", "exec"), scope)) if job.get("setup") else None
    for node, name in parts:
        failure = broken or attempt(lambda: exec(compile(ast.Module([node], []), "<tests>", "exec"), scope))
        if connection.gone is not None:
            failure = connection.gone
        if name is not None:
            report.test(name, failure is None, failure or "")
        elif failure is not None:
            broken = "preparing the test: " + failure
    for name in functions_of(parts):
        failure = broken or attempt(scope[name])
        report.test(name, failure is None and connection.gone is None, failure or connection.gone or "")
    if context["last"] and job.get("check") is not None:
        failure = broken or attempt(lambda: scope["check"](getattr(context["modules"][0], job["check"])))
        report.test("check(%s)" % job["check"], failure is None and connection.gone is None, failure or connection.gone or "")


def inject(scope, names, modules):
    """Names of the candidate that the tests use without importing them."""
    for module in modules:
        for name in names & set(module.__all__):
            scope.setdefault(name, getattr(module, name))


def attempt(body):
    try:
        body()
        return None
    except BaseException as error:  # A test fails whatever it ends with.
        return describe(error)


# --------------------------------------------------------------------------------------------------------- pytest

def with_pytest(job, report, connection):
    try:
        import pytest
    except ImportError:
        report.write(event="missing", what="pytest")
        return
    for path, content in job["files"].items():
        full = os.path.join("/job", path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(content)
    os.chdir("/job")
    sys.path.insert(0, "/job")
    plugin = make_plugin(pytest, report, connection)
    arguments = ["-q", "-p", "no:cacheprovider", "--rootdir=/job", "-c", "/dev/null", "--continue-on-collection-errors"]
    pytest.main(arguments + sorted(job["files"]), plugins=[plugin])


def bound_names(sources):
    """Names that the tests' own imports and definitions give; the candidate cannot export them to the tests."""
    names = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(node.name)
    return names


def foreign_imports(sources, modules):
    """As `bound_names`, without what the tests import from the candidate by name."""
    own = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {name.split(".")[0] for name in modules}:
                own |= {alias.asname or alias.name for alias in node.names}
    return bound_names(sources) - own


def make_plugin(pytest, report, connection):
    passed = {}

    class Plugin:
        def pytest_collectreport(self, report):
            if report.failed:
                Plugin.problem("collecting %s" % report.nodeid, report)

        @staticmethod
        def problem(name, found):
            lines = str(found.longrepr or "").strip().split("\n")
            errors = [line[1:].strip() for line in lines if line.startswith("E ")] or lines[-1:]
            named = [line for line in errors if re.match(r"[\w.]*(Error|Exception|Exit)\b", line)]
            report.test(name, False, (named or errors)[0])

        def pytest_collection_finish(self, session):
            report.write(event="plan", ids=[item.nodeid for item in session.items])

        def pytest_runtest_logreport(self, report):
            if report.when == "setup":
                passed[report.nodeid] = True
            ok = report.outcome == "passed" and not hasattr(report, "wasxfail") and connection.gone is None
            passed[report.nodeid] = passed.get(report.nodeid, False) and ok
            if not ok:
                passed.setdefault(report.nodeid + "!", report)
            if report.when == "teardown":
                Plugin.finish(report.nodeid)

        @staticmethod
        def finish(name):
            if passed[name]:
                report.test(name, True)
            elif connection.gone is not None:
                report.test(name, False, connection.gone)
            else:
                Plugin.problem(name, passed[name + "!"])

    return Plugin()


# ----------------------------------------------------------------------------------------------------------- main

def program_module(connection):
    """`from candidate import run`: runs a program of the candidate where the candidate is; for integration tests."""
    import types
    module = types.ModuleType("candidate")

    def run(argv, stdin=""):
        status, out, err = connection.ask({"op": "run", "argv": [str(part) for part in argv], "stdin": str(stdin)})
        return types.SimpleNamespace(returncode=status, stdout=out, stderr=err)

    module.run = run
    return module


def main():
    job = json.loads(sys.stdin.read())
    report = Report(job["nonce"])
    connection = remote.Connection()
    sys.modules["candidate"] = program_module(connection)
    sources = [text for path, text in job.get("files", {}).items() if path.endswith(".py")] + job.get("tests", [])
    try:
        connection.reserved |= foreign_imports(sources, job["modules"])
    except SyntaxError as error:
        report.write(event="broken", message="the tests: " + describe(error))
        return
    sys.meta_path.append(remote.Finder(connection, job["modules"]))
    try:
        (with_pytest if job["framework"] == "pytest" else plain)(job, report, connection)
    except SyntaxError as error:
        report.write(event="broken", message="the tests: " + describe(error))
        return
    report.write(event="end")


main()
sys.stdout.flush()
os._exit(0)
