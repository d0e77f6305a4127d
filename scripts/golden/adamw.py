"""AdamW for ten steps with and without clipping, and the learning-rate schedules of transformers."""
import torch
from transformers import get_scheduler

from common import OUT, generator, write_json

SHAPES = {"matrix": (4, 3), "wide": (2, 5), "vector": (6,)}
SETTINGS = dict(learningRate=1e-2, beta1=0.9, beta2=0.95, epsilon=1e-8, weightDecay=0.1, weightDecayVectors=0.0)
STEPS, MAX_NORM = 10, 1.0
WARMUP, TOTAL = 4, 20


def seeded() -> tuple[dict, list[dict]]:
    """Start values, and gradients whose global norm is above 1 in some steps and below in others."""
    source = generator(51)
    draw = lambda scale: {name: scale * torch.randn(shape, generator=source) for name, shape in SHAPES.items()}
    return draw(0.5), [draw(0.6 if step % 3 else 0.08) for step in range(STEPS)]


def run(start: dict, gradients: list[dict], clip: bool) -> list[dict]:
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    groups = [
        {"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": SETTINGS["weightDecay"]},
        {"params": [p for p in parameters.values() if p.dim() == 1], "weight_decay": SETTINGS["weightDecayVectors"]},
    ]
    betas = (SETTINGS["beta1"], SETTINGS["beta2"])
    optimizer = torch.optim.AdamW(groups, lr=SETTINGS["learningRate"], betas=betas, eps=SETTINGS["epsilon"], foreach=False)
    history = []
    for gradient in gradients:
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        limit = MAX_NORM if clip else float("inf")
        norm = torch.nn.utils.clip_grad_norm_(list(parameters.values()), limit, foreach=False)
        optimizer.step()
        state = {name: optimizer.state[parameter] for name, parameter in parameters.items()}
        history.append(clone({
            "gradNorm": norm, "clipped": bool(clip and norm > MAX_NORM),
            "values": {name: parameter.flatten() for name, parameter in parameters.items()},
            "m": {name: moments["exp_avg"].flatten() for name, moments in state.items()},
            "v": {name: moments["exp_avg_sq"].flatten() for name, moments in state.items()},
        }))
    return history


def clone(value):
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    return value.detach().tolist() if isinstance(value, torch.Tensor) else value


def schedule(name: str) -> list[float]:
    """The learning rate with which update 0, 1, ... is made; update 0 of a warm-up has rate 0."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=SETTINGS["learningRate"])
    scheduler = get_scheduler(name, optimizer, num_warmup_steps=WARMUP, num_training_steps=TOTAL)
    rates = []
    for _ in range(TOTAL + 1):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return rates


def main() -> None:
    start, gradients = seeded()
    flat = lambda tensors: {name: tensor.flatten() for name, tensor in tensors.items()}
    write_json(OUT / "adamw.json", {
        "settings": SETTINGS, "maxGradNorm": MAX_NORM, "shapes": {name: list(shape) for name, shape in SHAPES.items()},
        "start": flat(start), "gradients": [flat(gradient) for gradient in gradients],
        "plain": run(start, gradients, False), "clipped": run(start, gradients, True),
        "schedules": {"base": SETTINGS["learningRate"], "warmup": WARMUP, "total": TOTAL,
                      "constant": schedule("constant"), "constantWithWarmup": schedule("constant_with_warmup"),
                      "linear": schedule("linear"), "cosine": schedule("cosine")},
    })


if __name__ == "__main__":
    main()
