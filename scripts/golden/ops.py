"""Values and gradients of every tensor operation, from PyTorch. Inputs stay clear of ties and kinks."""
import zlib

import torch
import torch.nn.functional as F

from common import OUT, generator, write_json

CASES: list[dict] = []


class Draw:
    """Seeded inputs of one case; adding a case leaves the others as they are."""

    def __init__(self, case: str):
        self.source = generator(zlib.crc32(case.encode()))

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.source)

    def away(self, *shape: int) -> torch.Tensor:
        """At least 0.3 from zero, for divisors and kinks."""
        value = self.normal(*shape)
        return value + torch.where(value < 0, -0.3, 0.3)

    def positive(self, *shape: int) -> torch.Tensor:
        return self.normal(*shape).abs() + 0.3


def plain(tensor: torch.Tensor) -> dict:
    kind = {torch.float32: "float32", torch.int64: "int64", torch.bool: "bool"}[tensor.dtype]
    data = tensor.int() if tensor.dtype == torch.bool else tensor
    return {"shape": list(tensor.shape), "dtype": kind, "data": data.flatten()}


def case(op: str, label: str, inputs: dict, function, **options) -> None:
    """Runs `function` on the inputs by position. `fixed` names float inputs that get no gradient."""
    fixed = options.get("fixed", ())
    for name, tensor in inputs.items():
        tensor.requires_grad_(tensor.dtype == torch.float32 and name not in fixed)
    output = function(*inputs.values())
    upstream = Draw(f"{op} {label} upstream").normal(*output.shape)
    wanted = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
    found = torch.autograd.grad(output, list(wanted.values()), upstream)
    CASES.append({
        "name": f"{op} {label}", "op": op, "attrs": options.get("attrs", {}),
        "inputs": {name: plain(tensor) for name, tensor in inputs.items()}, "output": plain(output),
        "upstream": plain(upstream), "grads": {name: plain(grad) for name, grad in zip(wanted, found, strict=True)},
    })


def binary() -> None:
    shapes = {"same": ((2, 3), (2, 3)), "row": ((2, 3), (3,)), "outer": ((2, 1, 3), (4, 1)), "scalar": ((2, 3), ()),
              "scalarLeft": ((), (2, 3))}
    functions = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
                 "max": torch.maximum, "min": torch.minimum}
    for op, function in functions.items():
        for label, (left, right) in shapes.items():
            draw = Draw(f"{op} {label}")
            a = draw.positive(*left) if op == "pow" else draw.normal(*left)
            b = draw.away(*right) if op == "div" else draw.normal(*right)
            case(op, label, {"a": a, "b": b}, function)
    for exponent in (2.0, 3.0, 0.5, -1.0):
        x, power = Draw(f"pow {exponent}").positive(2, 3), torch.tensor(exponent)
        case("pow", f"constant {exponent:g}", {"a": x, "b": power}, torch.pow, fixed=("b",))


def unary() -> None:
    functions = {
        "neg": torch.neg, "exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "abs": torch.abs,
        "log": torch.log, "sqrt": torch.sqrt, "relu": torch.relu, "silu": F.silu, "gelu": lambda x: F.gelu(x, approximate="tanh"),
        "softplus": F.softplus, "logSigmoid": F.logsigmoid,
    }
    for op, function in functions.items():
        draw = Draw(op)
        positive = op in ("log", "sqrt")
        case(op, "small", {"x": draw.positive(3, 4) if positive else draw.away(3, 4)}, function)
    for op in ("exp", "tanh", "sigmoid", "silu", "gelu", "softplus", "logSigmoid", "erf"):
        case(op, "wide", {"x": 6 * Draw(f"{op} wide").normal(10)}, functions[op])
    for low, high in ((-0.5, 0.5), (None, 0.25), (-0.25, None)):
        x = Draw(f"clamp {low} {high}").away(3, 4)
        case("clamp", f"{low} {high}", {"x": x}, lambda x: x.clamp(low, high), attrs={"min": low, "max": high})


def normalised() -> None:
    for label, scale in (("small", 1.0), ("large", 50.0)):
        for op, function in (("softmax", torch.softmax), ("logSoftmax", torch.log_softmax)):
            x = scale * Draw(f"{op} {label}").normal(2, 3, 5)
            case(op, label, {"x": x}, lambda x: function(x, -1), attrs={"axis": -1})
    for eps in (1e-5, 0.1):
        draw = Draw(f"norm {eps}")
        x, weight, bias = draw.normal(2, 3, 8), 1 + 0.3 * draw.normal(8), 0.3 * draw.normal(8)
        rms = lambda x, w: F.rms_norm(x, (8,), w, eps)
        case("rmsNorm", f"{eps:g}", {"x": x.clone(), "weight": weight.clone()}, rms, attrs={"eps": eps})
        layer = lambda x, w, b: F.layer_norm(x, (8,), w, b, eps)
        case("layerNorm", f"{eps:g}", {"x": x, "weight": weight, "bias": bias}, layer, attrs={"eps": eps})


def products() -> None:
    shapes = {
        "plain": ((3, 4), (4, 5)), "batched": ((2, 3, 4), (2, 4, 5)), "broadcastRight": ((2, 3, 4), (4, 5)),
        "broadcastBoth": ((2, 1, 3, 4), (3, 4, 5)),
    }
    for label, (left, right) in shapes.items():
        for trans_a in (False, True):
            for trans_b in (False, True):
                name = label + (" transA" if trans_a else "") + (" transB" if trans_b else "")
                draw = Draw(f"matmul {name}")
                turn = lambda shape, flag: (*shape[:-2], shape[-1], shape[-2]) if flag else shape
                a, b = draw.normal(*turn(left, trans_a)), draw.normal(*turn(right, trans_b))
                multiply = lambda a, b: (a.mT if trans_a else a) @ (b.mT if trans_b else b)
                case("matmul", name, {"a": a, "b": b}, multiply, attrs={"transA": trans_a, "transB": trans_b})


def reductions() -> None:
    functions = {"sum": torch.sum, "mean": torch.mean, "reduceMax": torch.amax, "logSumExp": torch.logsumexp}
    for op, function in functions.items():
        for axes in ([0], [1], [-1], [0, 2], [0, 1, 2]):
            for keep in (False, True):
                label = f"{axes} {'keep' if keep else 'drop'}"
                x = Draw(f"{op} {label}").normal(2, 3, 4)
                case(op, label, {"x": x}, lambda x: function(x, axes, keepdim=keep), attrs={"axes": axes, "keepdims": keep})
    for axis in (0, -1):
        case("cumsum", f"{axis}", {"x": Draw(f"cumsum {axis}").normal(3, 4)}, lambda x: x.cumsum(axis), attrs={"axis": axis})


def cut(x: torch.Tensor, starts: list[int], ends: list[int], steps: list[int]) -> torch.Tensor:
    return x[tuple(slice(*bounds) for bounds in zip(starts, ends, steps, strict=True))]


def movement() -> None:
    x = lambda label: {"x": Draw(label).normal(2, 3, 4)}
    for shape in ([6, 4], [2, -1], [4, 3, 2], [1, 24, 1]):
        case("reshape", f"{shape}", x(f"reshape {shape}"), lambda x: x.reshape(shape), attrs={"shape": shape})
    for order in ([0, 2, 1], [2, 0, 1], [1, 0, 2]):
        case("transpose", f"{order}", x(f"transpose {order}"), lambda x: x.permute(order), attrs={"perm": order})
    for label, bounds in {"middle": ([0, 1, 1], [2, 3, 3], [1, 1, 1]), "negative": ([0, 0, -3], [1, -1, -1], [1, 1, 1]),
                          "stepped": ([0, 0, 0], [2, 3, 4], [1, 2, 3])}.items():
        attrs = dict(zip(("starts", "ends", "steps"), bounds, strict=True))
        case("slice", label, x(f"slice {label}"), lambda x: cut(x, *bounds), attrs=attrs)
    for axis, sizes in ((0, (1, 2)), (1, (2, 1, 3)), (-1, (2, 2))):
        draw, shape = Draw(f"concat {axis}"), [2, 3, 4]
        parts = {f"x{i}": draw.normal(*(shape[:axis % 3] + [size] + shape[axis % 3 + 1:])) for i, size in enumerate(sizes)}
        case("concat", f"{axis}", parts, lambda *parts: torch.cat(parts, axis), attrs={"axis": axis})
    for value in (0.0, 1.5):
        before, after = [0, 1, 2], [1, 0, 3]
        flat = [count for pair in reversed(list(zip(before, after))) for count in pair]
        attrs = {"before": before, "after": after, "value": value}
        case("pad", f"{value:g}", x(f"pad {value}"), lambda x: F.pad(x, flat, value=value), attrs=attrs)
    for start, shape in (((3, 1), [3, 4]), ((1, 3), [2, 5, 3]), ((), [2, 3])):
        value = Draw(f"expand {shape}").normal(*start)
        case("expand", f"{list(start)} to {shape}", {"x": value}, lambda x: x.expand(shape), attrs={"shape": shape})


def indexed() -> None:
    ids = torch.tensor([[4, 0, 4], [1, 4, 0]])
    case("gatherRows", "repeated", {"table": Draw("gather").normal(6, 3), "ids": ids}, lambda t, i: F.embedding(i, t))
    for label, shape, index in (("pick", (4, 6), [[5], [0], [5], [2]]), ("several", (2, 2, 5), [[[0, 4, 4]] * 2, [[2, 1, 2]] * 2])):
        x = Draw(f"take {label}").normal(*shape)
        case("takeAlongLast", label, {"x": x, "index": torch.tensor(index)}, lambda x, i: x.gather(-1, i), attrs={"axis": -1})
    for label, shapes in {"same": ((2, 3),) * 3, "broadcast": ((4, 1), (2, 1, 3), ())}.items():
        draw = Draw(f"where {label}")
        condition = torch.arange(torch.Size(shapes[0]).numel()).reshape(shapes[0]) % 3 != 1
        case("where", label, {"condition": condition, "a": draw.normal(*shapes[1]), "b": draw.normal(*shapes[2])}, torch.where)
    for label, shape in (("rows", (5, 3)), ("numbers", (5,))):
        segments, count = torch.tensor([0, 3, 0, 1, 3]), 4
        add = lambda x, s: torch.zeros(count, *shape[1:]).index_add(0, s, x)
        x = Draw(f"segment {label}").normal(*shape)
        case("segmentSum", label, {"x": x, "segments": segments}, add, attrs={"count": count})


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def rotary() -> None:
    """Half-split as in transformers: x is [batch, heads, tokens, dim]; cos and sin are [tokens, dim], each half the same."""
    theta, width = 100.0, 8
    for label, positions in (("fromZero", [0, 1, 2, 3, 4]), ("offset", [7, 8, 3, 50, 0])):
        frequencies = theta ** (-torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.tensor(positions).float(), frequencies).repeat(1, 2)
        inputs = {"x": Draw(f"rotary {label}").normal(2, 2, 5, width), "cos": angles.cos(), "sin": angles.sin()}
        case("rotary", label, inputs, rotate, fixed=("cos", "sin"), attrs={"theta": theta, "positions": positions})


def main() -> None:
    for part in (binary, unary, normalised, products, reductions, movement, indexed, rotary):
        part()
    assert len({entry["name"] for entry in CASES}) == len(CASES), "ops: case names must differ"
    write_json(OUT / "ops.json", {"cases": CASES})


if __name__ == "__main__":
    main()
