"""
Values between the examiner's process and the candidate's. Only plain data of exact types crosses by value; everything else is a number
that stands for an object of the other side. Nothing that is received is ever executed, so a hostile message costs a test, no more.
"""
import json
import os
import sys

LIMIT = 8 * 1024 * 1024
DEPTH = 100


class WireError(Exception):
    """The other side sent what no message can be, or a value is too large or too deep to send."""


class Closed(Exception):
    """The other side is gone."""


class Channel:
    def __init__(self, fd):
        os.set_blocking(fd, True)
        self.fd = fd

    def send(self, message):
        data = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        if len(data) > LIMIT:
            raise WireError("a value of %d bytes is more than %d" % (len(data), LIMIT))
        view = memoryview(len(data).to_bytes(4, "big") + data)
        try:
            while view:
                view = view[os.write(self.fd, view):]
        except OSError:
            raise Closed() from None

    def receive(self):
        size = int.from_bytes(self._exactly(4), "big")
        if size > LIMIT:
            raise WireError("a message of %d bytes is more than %d" % (size, LIMIT))
        try:
            message = json.loads(self._exactly(size))
        except (ValueError, RecursionError):
            raise WireError("a message is not JSON") from None
        if type(message) is not dict:
            raise WireError("a message is not an object")
        return message

    def _exactly(self, count):
        parts = []
        while count > 0:
            try:
                part = os.read(self.fd, min(count, 1 << 20))
            except OSError:
                part = b""
            if not part:
                raise Closed()
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def tagged(tag, value):
    return {"t": tag, "v": value}


_SEQUENCES = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
_BUILD = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def encode(value, other, depth=0):
    """`other(value)` makes the message of a value that is no plain data."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -(1 << 53) < value < (1 << 53) else tagged("int", hex(value))
    if kind is float:
        return value if value - value == 0 else tagged("float", repr(value))
    if depth > DEPTH:
        raise WireError("a value is nested deeper than %d levels (or contains itself)" % DEPTH)
    if kind in _SEQUENCES:
        return tagged(_SEQUENCES[kind], [encode(item, other, depth + 1) for item in value])
    if kind is dict:
        return tagged("dict", _pairs(value, other, depth))
    if kind is bytes or kind is bytearray:
        return tagged(kind.__name__, value.hex())
    if kind is complex:
        return tagged("complex", [repr(value.real), repr(value.imag)])
    if kind is range:
        return tagged("range", [encode(part, other) for part in (value.start, value.stop, value.step)])
    if value is Ellipsis or value is NotImplemented:
        return tagged("constant", repr(value))
    library = _encode_library(value, kind, other, depth)
    return library if library is not None else other(value)


def _pairs(value, other, depth):
    return [[encode(key, other, depth + 1), encode(item, other, depth + 1)] for key, item in value.items()]


def _encode_library(value, kind, other, depth):
    """Types of the standard library (and numpy) that are plain data. By module and name, so that nothing is imported for it."""
    module, name = kind.__module__, kind.__name__
    if not (isinstance(module, str) and sys.modules.get(module) is not None and getattr(sys.modules[module], name, None) is kind):
        return _encode_named(value, kind, other, depth)
    if module == "collections":
        if name == "deque":
            return {"t": "deque", "v": _items(value, other, depth), "m": value.maxlen}
        if name in ("OrderedDict", "Counter", "defaultdict"):
            return tagged(name, _pairs(value, other, depth))
    if module in ("decimal", "fractions") and name in ("Decimal", "Fraction"):
        return tagged(name, str(value))
    if module == "datetime":
        if name in ("date", "datetime", "time"):
            return tagged(name, value.isoformat())
        if name == "timedelta":
            return tagged(name, [value.days, value.seconds, value.microseconds])
    if module == "numpy":
        if name == "ndarray" and value.dtype.kind in "biufc":
            return {"t": "ndarray", "d": value.dtype.str, "s": list(value.shape), "v": value.tobytes().hex()}
        if hasattr(value, "item") and name != "ndarray":
            return encode(value.item(), other, depth + 1)
    return _encode_named(value, kind, other, depth)


def _encode_named(value, kind, other, depth):
    if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        fields = [str(field) for field in kind._fields]
        return {"t": "named", "n": str(kind.__name__), "f": fields, "v": _items(tuple.__iter__(value), other, depth)}
    return None


def _items(values, other, depth):
    return [encode(item, other, depth + 1) for item in values]


_named = {}


def decode(message, reference):
    """`reference(message)` makes the value of a message that is no plain data. Raises `WireError` for anything malformed."""
    try:
        return _decode(message, reference)
    except (WireError, Closed):
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, ArithmeticError, ImportError):
        raise WireError("a value is malformed") from None


def _decode(message, reference):
    if type(message) is not dict:
        if type(message) in (str, int, float, bool) or message is None:
            return message
        raise WireError("a value is malformed")
    tag, value = message["t"], message.get("v")
    if tag in _BUILD:
        return _BUILD[tag](_decode(item, reference) for item in value)
    if tag in ("dict", "OrderedDict", "Counter", "defaultdict"):
        return _mapping(tag, [(_decode(key, reference), _decode(item, reference)) for key, item in value])
    if tag == "int":
        return int(value, 16)
    if tag == "float":
        return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[value]
    if tag == "bytes":
        return bytes.fromhex(value)
    if tag == "bytearray":
        return bytearray.fromhex(value)
    if tag == "complex":
        return complex(float(value[0]), float(value[1]))
    if tag == "range":
        return range(*[_decode(part, reference) for part in value])
    if tag == "constant":
        return {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}[value]
    if tag == "named":
        return _named_tuple(message["n"], tuple(message["f"]), [_decode(item, reference) for item in value])
    return _decode_library(tag, value, message, reference)


def _mapping(tag, pairs):
    if tag == "dict":
        return dict(pairs)
    import collections
    if tag == "defaultdict":
        return collections.defaultdict(None, pairs)
    return getattr(collections, tag)(dict(pairs))


def _named_tuple(name, fields, values):
    import collections
    if len(fields) > 64 or len(str(name)) > 64:
        raise WireError("a named tuple is too large")
    kind = _named.get((name, fields))
    if kind is None:
        kind = _named[name, fields] = collections.namedtuple(name, fields)
    return kind._make(values)


def _decode_library(tag, value, message, reference):
    if tag == "deque":
        import collections
        return collections.deque([_decode(item, reference) for item in value], message["m"])
    if tag == "Decimal":
        import decimal
        return decimal.Decimal(value)
    if tag == "Fraction":
        import fractions
        return fractions.Fraction(value)
    if tag in ("date", "datetime", "time"):
        import datetime
        return getattr(datetime, tag).fromisoformat(value)
    if tag == "timedelta":
        import datetime
        return datetime.timedelta(*value)
    if tag == "ndarray":
        import numpy
        dtype = numpy.dtype(str(message["d"]))
        if dtype.kind not in "biufc":
            raise WireError("an array of objects")
        return numpy.frombuffer(bytes.fromhex(value), dtype=dtype).reshape([int(n) for n in message["s"]]).copy()
    return reference(message)
