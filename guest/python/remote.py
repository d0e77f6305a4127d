"""
The examiner's side of the candidate's objects. Plain data arrives as itself. An object of the candidate is a `Remote`: attributes and
calls are asked of the candidate's process, but whether it equals something, contains something or counts as true is decided here
unless the tests themselves named its class. An object that claims to equal everything thus equals nothing.
"""
import builtins
import sys
import threading
import types

import wire

CHANNEL = 4
_UNSAFE = (SystemExit, KeyboardInterrupt, GeneratorExit)
_FORWARDED = frozenset("""
len iter next getitem setitem delitem contains call enter exit add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow
neg pos abs invert and or xor lshift rshift iadd isub imul matmul lt le gt ge int float index reversed round bool hash eq ne aiter anext
aenter aexit str repr
""".split())


class CandidateGone(BaseException):
    """The candidate's process ended or broke the protocol. No `except Exception` of a test sees it, and no test passes after it."""


class Connection:
    def __init__(self):
        self.channel = wire.Channel(CHANNEL)
        self.lock = threading.RLock()
        self.locals = []
        self.local_numbers = {}
        self.classes = {}
        self.errors = []
        self.gone = None
        # A star import must not replace the language, a library or the tests' own names under the tests.
        self.reserved = frozenset(dir(builtins)) | sys.stdlib_module_names | {"pytest", "numpy", "candidate"}

    # ------------------------------------------------------------------------------------------------ talking

    def ask(self, message):
        with self.lock:
            if self.gone is not None:
                raise CandidateGone(self.gone)
            try:
                self.channel.send(message)
                while True:
                    reply = self.channel.receive()
                    if "op" not in reply:
                        break
                    self.channel.send(self.serve(reply))
                return self.result(reply, message)
            except wire.Closed:
                self.gone = "the candidate's process ended"
            except wire.WireError as error:
                self.gone = "the candidate's process broke the protocol: %s" % error
            raise CandidateGone(self.gone)

    def result(self, reply, message):
        out = reply.get("out")
        if type(out) is str:
            sys.stdout.write(out)
        if "raise" in reply:
            raise self.error(reply["raise"])
        value = self.decode(reply.get("ok"))
        for change in reply.get("changed", ()):
            self.apply(change, message)
        return value

    def apply(self, change, message):
        values = message.get("_values", ())
        index, encoded = change
        if type(index) is not int or not 0 <= index < len(values):
            raise wire.WireError("a change of no argument")
        old, new = values[index], self.decode(encoded)
        if type(old) is not type(new):
            raise wire.WireError("a change of an argument's type")
        if type(old) in (list, bytearray):
            old[:] = new
        elif type(old) in (dict, set):
            old.clear()
            old.update(new)

    def error(self, raised):
        if type(raised) is not dict:
            return wire.WireError("no exception")
        yours = raised.get("yours")
        if type(yours) is int and 0 <= yours < len(self.errors):
            return self.errors[yours]
        message = str(raised.get("message", ""))
        if raised.get("builtin") is True:
            kind = getattr(builtins, str(raised.get("type")), None)
            if not (isinstance(kind, type) and issubclass(kind, BaseException)) or kind in (KeyboardInterrupt, GeneratorExit):
                return RuntimeError(message)
            try:
                return kind(*[self.decode(item) for item in raised.get("args", [])])
            except Exception:
                return RuntimeError("%s: %s" % (raised.get("type"), message))
        try:
            found = self.decode(raised.get("object"))
        except wire.WireError:
            found = None
        if isinstance(found, Exception):
            object.__setattr__(found, "args", (message,))
            return found
        return RuntimeError("%s: %s" % (raised.get("type"), message))

    # ------------------------------------------------------------------------------------------------ values

    def encode(self, value):
        return wire.encode(value, self.local)

    def local(self, value):
        number = remote_number(value)
        if number is not None:
            return {"t": "mine", "v": number}
        name = getattr(value, "__name__", None)
        if type(name) is str and getattr(builtins, name, None) is value and name not in ("eval", "exec", "open", "__import__", "compile"):
            return {"t": "builtin", "v": name}
        if isinstance(value, types.ModuleType):
            raise TypeError("a test cannot hand a module to the candidate")
        # The list keeps it alive, so its identity stays its own.
        if id(value) not in self.local_numbers:
            self.locals.append(value)
            self.local_numbers[id(value)] = len(self.locals) - 1
        return {"t": "local", "v": self.local_numbers[id(value)]}

    def decode(self, message):
        return wire.decode(message, self.reference)

    def reference(self, message):
        tag, number = message["t"], message["v"]
        if type(number) is not int:
            raise wire.WireError("no number")
        if tag == "yours":
            if not 0 <= number < len(self.locals):
                raise wire.WireError("no such object")
            return self.locals[number]
        if tag == "class":
            return self.remote_class(message)
        if tag == "object":
            kind = self.remote_class(message["class"])
            made = kind.__new__(kind)
            object.__setattr__(made, "_flywheel_number", number)
            return made
        if tag == "function":
            return RemoteFunction(self, number, str(message["name"])[:80])
        if tag == "coroutine":
            return self.coroutine(number)
        if tag == "module":
            return RemoteValue(self, number)
        raise wire.WireError("unknown tag")

    async def coroutine(self, number):
        return self.ask({"op": "await", "id": number})

    def remote_class(self, message):
        number = message["v"]
        if type(number) is not int:
            raise wire.WireError("no number")
        if number not in self.classes:
            base = getattr(builtins, str(message.get("base")), None)
            wanted = base if isinstance(base, type) and issubclass(base, Exception) else object
            names = [name for name in message["operators"] if type(name) is str and name.strip("_") in _FORWARDED]
            self.classes[number] = make_class(self, number, {"name": str(message["name"])[:80], "operators": names, "base": wanted})
        return self.classes[number]

    # ------------------------------------------------------------------------------------------------ callbacks

    def serve(self, request):
        try:
            number = request["id"]
            if type(number) is not int or not 0 <= number < len(self.locals):
                raise wire.WireError("no such object")
            return {"ok": self.encode(self.perform(request, self.locals[number]))}
        except (wire.Closed, wire.WireError, CandidateGone):
            raise
        except BaseException as error:
            self.errors.append(error)
            return {"raise": {"type": type(error).__name__, "message": str(error)[:2000], "yours": len(self.errors) - 1}}

    def perform(self, request, target):
        op = request["op"]
        if op in ("get", "set"):
            name = request["name"]
            if type(name) is not str or name.startswith("_") or isinstance(target, (types.FunctionType, types.MethodType, type)):
                raise AttributeError(str(name))
            return getattr(target, name) if op == "get" else setattr(target, name, self.decode(request["value"]))
        args = [self.decode(item) for item in request.get("args", [])]
        if op == "call":
            return target(*args, **{str(name): self.decode(item) for name, item in request.get("kwargs", [])})
        if op == "operator" and request["name"] == "__bool__":
            return bool(target)
        if op == "operator" and str(request["name"]).strip("_") in _FORWARDED | {"str"}:
            return getattr(type(target), request["name"])(target, *args)
        raise wire.WireError("unknown question")


def remote_number(value):
    if isinstance(value, RemoteClass):
        return type.__getattribute__(value, "_flywheel_class_number")
    try:
        number = object.__getattribute__(value, "_flywheel_number")
    except (AttributeError, TypeError):
        return None
    return number if isinstance(value, (Remote, RemoteFunction, RemoteValue)) or isinstance(type(value), RemoteClass) else None


class RemoteValue:
    """A module of the candidate, or anything else that is only asked for attributes."""

    def __init__(self, connection, number):
        object.__setattr__(self, "_flywheel_connection", connection)
        object.__setattr__(self, "_flywheel_number", number)

    def __getattr__(self, name):
        value = self._flywheel_connection.ask({"op": "get", "id": self._flywheel_number, "name": name})
        if isinstance(value, RemoteClass):
            type.__setattr__(value, "_flywheel_named", True)
        return value

    def __setattr__(self, name, value):
        encoded = self._flywheel_connection.encode(value)
        self._flywheel_connection.ask({"op": "set", "id": self._flywheel_number, "name": name, "value": encoded})


class RemoteFunction:
    def __init__(self, connection, number, name):
        self._flywheel_connection, self._flywheel_number, self.__name__ = connection, number, name

    def __call__(self, *args, **kwargs):
        return invoke(self._flywheel_connection, {"op": "call", "id": self._flywheel_number}, args, kwargs)

    def __getattr__(self, name):
        return self._flywheel_connection.ask({"op": "get", "id": self._flywheel_number, "name": name})


def invoke(connection, request, args, kwargs=None):
    message = dict(request, args=[connection.encode(item) for item in args])
    if kwargs:
        message["kwargs"] = [[name, connection.encode(item)] for name, item in kwargs.items()]
    return connection.ask(Message(message, _values=args))


class Message(dict):
    """A request that remembers its arguments as values, which are not sent."""

    def __init__(self, sent, _values):
        super().__init__(sent)
        self._values = _values

    def get(self, name, default=None):
        return self._values if name == "_values" else super().get(name, default)


class RemoteClass(type):
    def __new__(mcs, name, bases, body):
        raise TypeError("a test cannot derive a class from the candidate's %s" % bases[0].__name__)

    def __call__(cls, *args, **kwargs):
        return invoke(cls._flywheel_owner, {"op": "call", "id": cls._flywheel_class_number}, args, kwargs)

    def __getattr__(cls, name):
        if name.startswith("_flywheel") or name in ("__abstractmethods__", "__set_name__"):
            raise AttributeError(name)
        return cls._flywheel_owner.ask({"op": "get", "id": cls._flywheel_class_number, "name": name})


class Remote:
    """Mixed into every class of the candidate."""

    def __getattr__(self, name):
        if name.startswith("_flywheel") or name in ("__notes__", "__wrapped__"):
            raise AttributeError(name)
        kind = type(self)
        return kind._flywheel_owner.ask({"op": "get", "id": object.__getattribute__(self, "_flywheel_number"), "name": name})

    def __setattr__(self, name, value):
        if name.startswith("__"):
            return object.__setattr__(self, name, value)
        owner = type(self)._flywheel_owner
        owner.ask({"op": "set", "id": object.__getattribute__(self, "_flywheel_number"), "name": name, "value": owner.encode(value)})

    def __eq__(self, other):
        kind, number = type(self), remote_number(other)
        if number == remote_number(self):
            return True
        if number is None or type(other) is not kind or not kind._flywheel_named or "__eq__" not in kind._flywheel_operators:
            return False
        # It may call its own kind equal, if it does not call everything so.
        everything = any(self._operate("__eq__", probe) is True for probe in (object(), 1, ""))
        return not everything and self._operate("__eq__", other) is True

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        kind = type(self)
        if kind._flywheel_named and "__hash__" in kind._flywheel_operators:
            value = self._operate("__hash__")
            if type(value) is int:
                return hash(value)
        return hash(remote_number(self))

    def __bool__(self):
        kind = type(self)
        for name in ("__bool__", "__len__"):
            if name in kind._flywheel_operators:
                if not kind._flywheel_named:
                    raise TypeError("an object of the candidate's class %s is neither true nor false" % kind.__name__)
                value = self._operate(name)
                if type(value) not in (bool, int):
                    raise TypeError("%s returned no plain value" % name)
                return bool(value)
        return True

    def __contains__(self, item):
        kind = type(self)
        if kind._flywheel_named and "__contains__" in kind._flywheel_operators:
            return self._operate("__contains__", item) is True
        return any(found == item for found, _ in zip(iter(self), range(1_000_000)))

    def __repr__(self):
        return self._text("__repr__", "<%s of the candidate>" % type(self).__name__)

    def __str__(self):
        return self._text("__str__", None) if "__str__" in type(self)._flywheel_operators else repr(self)

    def _text(self, name, otherwise):
        if isinstance(self, Exception):
            return Exception.__str__(self) if name == "__str__" else "%s(%r)" % (type(self).__name__, self.args[:1])
        if name not in type(self)._flywheel_operators:
            return otherwise
        text = self._operate(name)
        if type(text) is not str:
            raise TypeError("%s returned no text" % name)
        return text

    def _operate(self, name, *args):
        kind = type(self)
        return invoke(kind._flywheel_owner, {"op": "operator", "id": object.__getattribute__(self, "_flywheel_number"), "name": name}, args)


_DECIDED_HERE = frozenset(("__eq__", "__ne__", "__hash__", "__bool__", "__contains__", "__str__", "__repr__"))
_COMPARISONS = frozenset(("__lt__", "__le__", "__gt__", "__ge__"))


def make_class(connection, number, shape):
    body = {"_flywheel_owner": connection, "_flywheel_class_number": number, "_flywheel_named": False}
    body["_flywheel_operators"] = frozenset(shape["operators"])
    for name in shape["operators"]:
        if name not in _DECIDED_HERE:
            body[name] = operator(name)
    bases = (Remote,) if shape["base"] is object else (Remote, shape["base"])
    made = type.__new__(RemoteClass, shape["name"], bases, body)
    return made


def operator(name):
    def forward(self, *args):
        if name in _COMPARISONS and not (type(self)._flywheel_named and type(args[0]) is type(self)):
            return NotImplemented
        if name in ("__exit__", "__aexit__"):
            args = (None, None, None)
        return self._operate(name, *args)
    forward.__name__ = name
    return forward


class CandidateModule(types.ModuleType):
    """What `import solution` gives a test."""

    def __getattr__(self, name):
        state = self.__dict__.get("_flywheel")
        if state is None or (name.startswith("__") and name != "__all__"):
            raise AttributeError(name)
        connection, number = state
        if name == "__all__":
            found = connection.ask({"op": "names", "id": number})
            return [item for item in found if type(item) is str and item not in connection.reserved] if type(found) is list else []
        value = connection.ask({"op": "get", "id": number, "name": name})
        if isinstance(value, RemoteClass):
            type.__setattr__(value, "_flywheel_named", True)
        return value


class Finder:
    """Answers imports of the candidate's modules; comes last, so that it can replace no other module."""

    def __init__(self, connection, names):
        self.connection, self.names = connection, frozenset(names)

    def find_spec(self, name, path=None, target=None):
        if name not in self.names and not any(name.startswith(own + ".") for own in self.names):
            return None
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return CandidateModule(spec.name)

    def exec_module(self, module):
        found = self.connection.ask({"op": "import", "name": module.__name__})
        number = remote_number(found)
        if number is None:
            raise ImportError("%s is no module" % module.__name__)
        module.__dict__["_flywheel"] = (self.connection, number)
