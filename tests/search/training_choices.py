"""What a model is trained with: losses and metrics that suit an output, optimizers, schedules."""

import random
from dataclasses import dataclass, field
from typing import Any

from layer_choices import Draw, class_of, number, off, on, one_of, whole


@dataclass(frozen=True)
class LossChoice:
    """A loss: targets (see model_recipe.targets_of), what its output must be, its options."""

    targets: str
    head: str  # what comes before it: "softmax", "sigmoid", "softplus" or "any"
    names: tuple[str, ...] = ()  # other spellings
    may: dict[str, Draw] = field(default_factory=dict)


SMOOTHING = {"label_smoothing": number(0.05, 0.4)}
LOGITS = {"from_logits": on}
REDUCTION = {"reduction": one_of("sum", "mean", "mean_with_sample_weight", "sum_over_batch_size")}
LOSSES: dict[str, LossChoice] = {
    "BinaryCrossentropy": LossChoice(
        "flags", "sigmoid", ("binary_crossentropy", "bce", "BCE"), {**LOGITS, **SMOOTHING}
    ),
    "CategoricalCrossentropy": LossChoice(
        "one_hot", "softmax", ("categorical_crossentropy",), {**LOGITS, **SMOOTHING}
    ),
    "SparseCategoricalCrossentropy": LossChoice(
        "classes", "softmax", ("sparse_categorical_crossentropy",), LOGITS
    ),
    "MeanSquaredError": LossChoice("floats", "any", ("mse", "MSE", "mean_squared_error")),
    "MeanAbsoluteError": LossChoice("floats", "any", ("mae", "MAE", "mean_absolute_error")),
    "BinaryFocalCrossentropy": LossChoice(
        "flags",
        "sigmoid",
        ("binary_focal_crossentropy",),
        {
            **LOGITS,
            **SMOOTHING,
            "apply_class_balancing": on,
            "alpha": number(0.1, 0.9),
            "gamma": number(0.5, 3),
        },
    ),
    "CategoricalFocalCrossentropy": LossChoice(
        "one_hot",
        "softmax",
        ("categorical_focal_crossentropy",),
        {**LOGITS, **SMOOTHING, "alpha": number(0.1, 0.9), "gamma": number(0.5, 3)},
    ),
    "MeanAbsolutePercentageError": LossChoice("floats", "any", ("mape",)),
    "MeanSquaredLogarithmicError": LossChoice("counts", "softplus", ("msle",)),
    "Huber": LossChoice("floats", "any", ("huber",), {"delta": number(0.2, 2)}),
    "LogCosh": LossChoice("floats", "any", ("log_cosh",)),
    "Hinge": LossChoice("signs", "any", ("hinge",)),
    "SquaredHinge": LossChoice("signs", "any", ("squared_hinge",)),
    "CategoricalHinge": LossChoice("one_hot", "any", ("categorical_hinge",)),
    "KLDivergence": LossChoice("shares", "softmax", ("kl_divergence", "kld")),
    "Poisson": LossChoice("counts", "softplus", ("poisson",)),
    "CosineSimilarity": LossChoice("floats", "any", ("cosine_similarity",)),
}
# Losses that need an axis of several classes.
OF_CLASSES = ("one_hot", "classes", "shares")

ERRORS: dict[str, dict[str, Draw]] = {
    "MeanSquaredError": {},
    "MeanAbsoluteError": {},
    "MeanAbsolutePercentageError": {},
    "MeanSquaredLogarithmicError": {},
    "RootMeanSquaredError": {},
    "LogCoshError": {},
    "CosineSimilarity": {},
}
# By the kind of targets.
METRICS: dict[str, dict[str, dict[str, Draw]]] = {
    "flags": {
        "BinaryAccuracy": {"threshold": number(0.2, 0.8)},
        "Precision": {"thresholds": number(0.2, 0.8)},
        "Recall": {"thresholds": number(0.2, 0.8)},
        "AUC": {
            "num_thresholds": whole(3, 50),
            "curve": one_of("PR"),
            "summation_method": one_of("minoring", "majoring"),
            "from_logits": on,
        },
        "MeanSquaredError": {},
        "MeanAbsoluteError": {},
    },
    "one_hot": {
        "CategoricalAccuracy": {},
        "TopKCategoricalAccuracy": {"k": whole(1, 3)},
        "CategoricalHinge": {},
        "KLDivergence": {},
        "RootMeanSquaredError": {},
        "AUC": {"num_thresholds": whole(3, 50)},
    },
    "classes": {
        "SparseCategoricalAccuracy": {},
        "SparseTopKCategoricalAccuracy": {"k": whole(1, 3)},
    },
    "floats": ERRORS,
    "shares": {"KLDivergence": {}, "MeanAbsoluteError": {}},
    "counts": {"Poisson": {}, "MeanSquaredLogarithmicError": {}, "MeanAbsoluteError": {}},
    "signs": {"Hinge": {}, "SquaredHinge": {}, "MeanSquaredError": {}},
}
WITH_ACCURACY = ("flags", "one_hot", "classes")

EVERY_OPTIMIZER: dict[str, Draw] = {
    "clipnorm": number(0.05, 1),
    "global_clipnorm": number(0.05, 1),
    "clipvalue": number(0.01, 0.3),
    "weight_decay": number(0.01, 0.2),
}
BETAS: dict[str, Draw] = {"beta_1": number(0.5, 0.95), "beta_2": number(0.8, 0.99)}
OPTIMIZERS: dict[str, dict[str, Draw]] = {
    "Adadelta": {"rho": number(0.5, 0.99)},
    "Adafactor": {"clip_threshold": number(0.5, 2), "beta_2_decay": number(-0.9, -0.5)},
    "Adagrad": {"initial_accumulator_value": number(0.01, 0.3)},
    "Adam": {**BETAS, "amsgrad": on},
    "AdamW": {**BETAS, "amsgrad": on},
    "Adamax": BETAS,
    "Ftrl": {
        "learning_rate_power": number(-0.9, -0.3),
        "initial_accumulator_value": number(0.05, 0.3),
        "l1_regularization_strength": number(0.001, 0.05),
        "l2_regularization_strength": number(0.001, 0.05),
        "l2_shrinkage_regularization_strength": number(0.001, 0.05),
        "beta": number(0.01, 0.3),
    },
    "Lamb": BETAS,
    "Lion": BETAS,
    "Muon": {
        "momentum": number(0.5, 0.95),
        "nesterov": on,
        "adam_lr_ratio": number(0.5, 2),
        "rms_rate": number(0.1, 0.5),
    },
    "Nadam": BETAS,
    "RMSprop": {"rho": number(0.5, 0.95), "momentum": number(0.1, 0.9), "centered": on},
    "SGD": {"momentum": number(0.1, 0.9), "nesterov": on},
    "ScheduleFreeAdamW": {**BETAS, "warmup_steps": whole(0, 3)},
}
NO_EPSILON = ("Adafactor", "Ftrl", "Lion", "SGD")


def schedule(rng: random.Random) -> dict[str, Any]:
    rate = round(rng.uniform(0.005, 0.05), 4)
    steps = rng.randint(1, 3)
    flag = rng.random() < 0.5
    first = {"initial_learning_rate": rate}
    return rng.choice(
        [
            class_of(
                "ExponentialDecay", **first, decay_steps=steps, decay_rate=0.5, staircase=flag
            ),
            class_of(
                "InverseTimeDecay", **first, decay_steps=steps, decay_rate=0.5, staircase=flag
            ),
            class_of("PolynomialDecay", **first, decay_steps=steps, power=2.0, cycle=flag),
            class_of("PiecewiseConstantDecay", boundaries=[1], values=[rate, rate / 2]),
            class_of("CosineDecay", **first, decay_steps=steps, alpha=0.1),
            class_of("CosineDecay", **first, decay_steps=3, warmup_target=0.1, warmup_steps=2),
            class_of("CosineDecayRestarts", **first, first_decay_steps=steps, m_mul=0.8),
        ]
    )


def draw_options(rng: random.Random, may: dict[str, Draw], share: float) -> dict[str, Any]:
    return {key: draw(rng, ()) for key, draw in may.items() if rng.random() < share}


def draw_optimizer(rng: random.Random) -> dict[str, Any]:
    """An optimizer whose steps are well conditioned: epsilon is not small, rates are not large."""
    name = rng.choice(sorted(OPTIMIZERS))
    config = draw_options(rng, OPTIMIZERS[name], 0.3)
    if rng.random() < 0.3:
        config.update([rng.choice(sorted(EVERY_OPTIMIZER.items()))])
        key, draw = list(config.items())[-1]
        config[key] = draw(rng, ()) if callable(draw) else draw
    if name not in NO_EPSILON and rng.random() < 0.8:
        config["epsilon"] = rng.choice([1e-3, 1e-2])
    if rng.random() < 0.15:
        config["learning_rate"] = schedule(rng)
    else:
        config["learning_rate"] = round(rng.uniform(0.001, 0.05), 4)
    return class_of(name, **config)


def draw_loss(rng: random.Random, classes: int) -> tuple[Any, str, str]:
    """A loss for an output of so many classes, the kind of its targets, and the head it needs."""
    names = [n for n, c in LOSSES.items() if classes > 1 or c.targets not in OF_CLASSES]
    name = rng.choice(names)
    choice = LOSSES[name]
    targets = choice.targets
    if targets == "classes" and rng.random() < 0.3:
        targets += " column"
    if choice.names and rng.random() < 0.25:
        return rng.choice(choice.names), targets, choice.head
    config = draw_options(rng, choice.may, 0.35)
    if rng.random() < 0.25:
        config["reduction"] = REDUCTION["reduction"](rng, ())
    if name == "SparseCategoricalCrossentropy" and rng.random() < 0.06:
        config["ignore_class"] = rng.choice([0, 255])
        targets += f" ignored {config['ignore_class']}"
    head = "any" if config.get("from_logits") else choice.head
    return class_of(name, **config), targets, head


def draw_metrics(rng: random.Random, targets: str) -> list[Any]:
    kind = targets.split()[0]
    table = METRICS[kind]
    names = rng.sample(sorted(table), min(len(table), rng.choice([0, 1, 1, 2])))
    metrics: list[Any] = [class_of(name, **draw_options(rng, table[name], 0.5)) for name in names]
    if kind in WITH_ACCURACY and rng.random() < 0.4:
        metrics.append(rng.choice(["accuracy", "acc"]))
    return metrics


__all__ = ["LOSSES", "METRICS", "OPTIMIZERS", "draw_loss", "draw_metrics", "draw_optimizer", "off"]
