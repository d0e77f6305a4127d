"""
The candidate's side: loads the candidate's files in this process and answers what the examiner asks of them. It knows no test and no
expected value; whatever the code here does to this process, it can only change what its own functions return.
"""
import builtins
import io
import json
import os
import sys

sys.path.insert(0, "/guest/python")
import wire  # noqa: E402

del sys.path[0]

CHANNEL = 4


class Refused(Exception):
    """The examiner asked for what is not there."""


class Local:
    """An object of the examiner (a callback, a test's own object): calls and public attributes are asked of it."""

    def __init__(self, agent, number):
        self.__dict__["_flywheel"] = (agent, number)

    def __call__(self, *args, **kwargs):
        agent, number = self.__dict__["_flywheel"]
        return agent.ask({"op": "call", "id": number, "args": agent.encode_all(args), "kwargs": agent.encode_named(kwargs)})

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        agent, number = self.__dict__["_flywheel"]
        return agent.ask({"op": "get", "id": number, "name": name})

    def __setattr__(self, name, value):
        agent, number = self.__dict__["_flywheel"]
        agent.ask({"op": "set", "id": number, "name": name, "value": agent.encode(value)})


def _operator(name):
    def forward(self, *args):
        agent, number = self.__dict__["_flywheel"]
        return agent.ask({"op": "operator", "id": number, "name": name, "args": agent.encode_all(args)})
    return forward


_OPERATORS = "len iter next getitem setitem contains bool str enter exit lt le gt ge add sub mul"
for _name in _OPERATORS.split():
    setattr(Local, "__%s__" % _name, _operator("__%s__" % _name))

_HIDDEN = frozenset(dir(object)) - {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__str__", "__repr__"}
_FUNCTIONS = frozenset("function method builtin_function_or_method method-wrapper partial method_descriptor _lru_cache_wrapper".split())


class Agent:
    def __init__(self):
        self.channel = wire.Channel(CHANNEL)
        self.objects = {}
        self.numbers = {}
        self.locals = {}
        self.loop = None

    # ------------------------------------------------------------------------------------------------ values

    def reference(self, value):
        if type(value) is Local:
            return {"t": "yours", "v": value.__dict__["_flywheel"][1]}
        number = self.numbers.get(id(value))
        if number is None:
            number = len(self.objects) + 1
            self.objects[number] = value
            self.numbers[id(value)] = number
        if isinstance(value, type):
            return {"t": "class", "v": number, "name": str(value.__name__), "operators": self.operators(value), "base": self.base(value)}
        kind = type(value)
        module = type(sys)
        if kind is module:
            return {"t": "module", "v": number}
        if kind.__name__ == "coroutine":
            return {"t": "coroutine", "v": number}
        if kind.__name__ in _FUNCTIONS:
            return {"t": "function", "v": number, "name": str(getattr(value, "__name__", "function"))}
        return {"t": "object", "v": number, "class": self.reference(kind)}

    @staticmethod
    def operators(kind):
        found = []
        for owner in kind.__mro__[:-1]:
            found += [name for name in owner.__dict__ if name.startswith("__") and name.endswith("__") and name not in _HIDDEN]
        return sorted(set(found))

    @staticmethod
    def base(kind):
        """The nearest class of the language that an exception class comes from."""
        for owner in kind.__mro__:
            if issubclass(owner, BaseException) and getattr(builtins, owner.__name__, None) is owner:
                return owner.__name__
        return None

    def encode(self, value):
        return wire.encode(value, self.reference)

    def encode_all(self, values):
        return [self.encode(value) for value in values]

    def encode_named(self, values):
        return [[name, self.encode(value)] for name, value in values.items()]

    def decode(self, message):
        return wire.decode(message, self.found)

    def found(self, message):
        tag, value = message["t"], message["v"]
        if tag == "mine":
            return self.objects[value]
        if tag == "local":
            if value not in self.locals:
                self.locals[value] = Local(self, value)
            return self.locals[value]
        if tag == "builtin":
            return getattr(builtins, value)
        raise wire.WireError("unknown tag")

    # ------------------------------------------------------------------------------------------------ talking

    def ask(self, message):
        """A question to the examiner in the middle of a call."""
        self.channel.send(message)
        return self.answer_of(self.channel.receive())

    def answer_of(self, reply):
        while "op" in reply:
            self.channel.send(self.perform(reply))
            reply = self.channel.receive()
        if "ok" in reply:
            return self.decode(reply["ok"])
        raised = reply["raise"]
        kind = getattr(builtins, str(raised["type"]), RuntimeError)
        error = kind(raised["message"]) if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError(raised["message"])
        error._flywheel_yours = raised.get("yours")
        raise error

    def perform(self, request):
        captured = io.StringIO()
        before, sys.stdout = sys.stdout, captured
        try:
            answer = self.answer(request)
        except wire.Closed:
            os._exit(0)
        except BaseException as error:  # Whatever the candidate raises is an answer, SystemExit included.
            answer = {"raise": self.raised(error)}
        finally:
            sys.stdout = before
        text = captured.getvalue()
        if text:
            answer["out"] = text[:65536]
        try:
            json.dumps(answer)
        except (ValueError, TypeError, RecursionError):
            return {"raise": {"type": "RuntimeError", "message": "the result cannot be sent"}}
        return answer

    def raised(self, error):
        yours = getattr(error, "_flywheel_yours", None)
        if yours is not None:
            return {"type": "Exception", "message": "", "yours": yours}
        kind = type(error)
        try:
            message = str(error)[:2000]
        except BaseException:
            message = ""
        builtin = getattr(builtins, kind.__name__, None) is kind
        answer = {"type": str(kind.__name__), "message": message, "base": self.base(kind), "builtin": builtin}
        try:
            answer["args"] = self.encode_all(error.args)
        except BaseException:
            answer["args"] = [message]
        if not answer["builtin"]:
            answer["object"] = self.reference(error)
        return answer

    def answer(self, request):
        op = request["op"]
        if op == "import":
            import importlib
            return {"ok": self.reference(importlib.import_module(request["name"]))}
        if op == "names":
            return {"ok": self.encode(self.names(self.objects[request["id"]]))}
        if op == "run":
            return {"ok": self.encode(run_program(request["argv"], request["stdin"]))}
        target = self.objects[request["id"]]
        if op == "get":
            return {"ok": self.encode(getattr(target, request["name"]))}
        if op == "set":
            setattr(target, request["name"], self.decode(request["value"]))
            return {"ok": None}
        if op == "await":
            return {"ok": self.encode(self.awaited(target))}
        args = [self.decode(item) for item in request["args"]]
        kwargs = {name: self.decode(item) for name, item in request.get("kwargs", [])}
        if op == "operator":
            result = getattr(type(target), request["name"])(target, *args)
        elif op == "call":
            result = target(*args, **kwargs)
        else:
            raise Refused(op)
        answer = {"ok": self.encode(result)}
        changed = self.changed(request["args"], args)
        if changed:
            answer["changed"] = changed
        return answer

    def changed(self, sent, args):
        """Arguments that the call changed in place, as they are now."""
        found = []
        for index, (before, value) in enumerate(zip(sent, args)):
            if type(value) in (list, dict, set, bytearray):
                after = self.encode(value)
                if after != before:
                    found.append([index, after])
        return found

    @staticmethod
    def names(module):
        listed = getattr(module, "__all__", None)
        names = listed if isinstance(listed, (list, tuple)) else [
            name for name, value in vars(module).items() if not name.startswith("_") and type(value) is not type(sys)
        ]
        return [name for name in names if type(name) is str]

    def awaited(self, coroutine):
        import asyncio
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        return self.loop.run_until_complete(coroutine)

    def serve(self):
        while True:
            self.channel.send(self.perform(self.channel.receive()))


def run_program(argv, stdin):
    """Runs a program of the candidate as a process of its own, here, in the candidate's isolation."""
    import subprocess
    command = [sys.executable if part == "python" and index == 0 else part for index, part in enumerate(argv)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd="/job", errors="replace")
    return (done.returncode, done.stdout[:1_000_000], done.stderr[:1_000_000])


def main():
    job = json.loads(sys.stdin.read())
    for path, content in job["files"].items():
        full = os.path.join("/job", path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(content)
    sys.stdin = io.StringIO("")
    sys.path.insert(0, "/job")
    sys.argv = ["main.py"]
    try:
        Agent().serve()
    except wire.Closed:
        pass


main()
