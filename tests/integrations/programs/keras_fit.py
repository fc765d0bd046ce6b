"""Fits a small network with Keras 3 on torch, and evaluates it; the fifth batch is bad."""

import keras
import numpy as np
from numbers_network import WORDS, batches
from results import print_results

assert keras.backend.backend() == "torch"


def fit():
    keras.utils.set_random_seed(0)
    layers = keras.layers
    hidden = layers.Dense(8, activation="relu"), layers.Dropout(0.1)
    model = keras.Sequential([*hidden, layers.Dense(1)])
    every = 2 if "accumulate" in WORDS else None
    optimizer = keras.optimizers.Adam(1e-2, gradient_accumulation_steps=every)
    model.compile(optimizer, loss="mse", jit_compile="compile" in WORDS)
    x = np.concatenate([each.numpy() for each in batches()])
    x[x > 90] = np.nan  # FAULT
    y, quiet = np.ones((len(x), 1)), {"batch_size": 4, "verbose": 0}
    if "load" in WORDS:
        model = keras.saving.load_model("model.keras")
        optimizer = model.optimizer
    model.evaluate(x[:8], y[:8], **quiet)
    history = model.fit(x, y, shuffle=False, validation_data=(x[:8], y[:8]), epochs=2, **quiet)
    model.predict(x[:8], **quiet)
    if "save" in WORDS:
        model.save("model.keras")
    weights = [each.tobytes().hex() for each in model.get_weights()]
    return {
        "weights": weights,
        "losses": [str(each) for each in history.history["loss"]],
        "iterations": int(optimizer.iterations),
        "is_finite": all(bool(np.isfinite(each).all()) for each in model.get_weights()),
    }


print_results(**fit())
