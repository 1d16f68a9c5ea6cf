# Functional API: support ticket ranking with several inputs and several outputs
# (title tokens, body tokens, tags -> priority + department + hours to solve)
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(2021)

num_tags = 12
num_words = 2000
num_departments = 4

title_input = keras.Input(shape=(None,), name="title")
body_input = keras.Input(shape=(None,), name="body")
tags_input = keras.Input(shape=(num_tags,), name="tags")

title_features = layers.Embedding(num_words, 32)(title_input)
body_features = layers.Embedding(num_words, 32)(body_input)
title_features = layers.LSTM(48)(title_features)
body_features = layers.LSTM(24)(body_features)

x = layers.concatenate([title_features, body_features, tags_input])
priority_pred = layers.Dense(1, name="priority")(x)
department_pred = layers.Dense(num_departments, name="department")(x)
hours_pred = layers.Dense(1, activation="softplus", name="hours")(layers.Dense(16, activation="relu")(x))

model = keras.Model(
    inputs=[title_input, body_input, tags_input],
    outputs={"priority": priority_pred, "department": department_pred, "hours": hours_pred},
)

model.compile(
    optimizer=keras.optimizers.RMSprop(1e-3),
    loss={
        "priority": keras.losses.BinaryCrossentropy(from_logits=True),
        "department": keras.losses.CategoricalCrossentropy(from_logits=True),
        "hours": "mae",
    },
    loss_weights={"priority": 1.0, "department": 0.2, "hours": 0.05},
    metrics={"department": ["acc", keras.metrics.TopKCategoricalAccuracy(k=2, name="top2")], "hours": ["mse"]},
)

# Dummy input data
rng = np.random.default_rng(5)
n = 1280
title_data = rng.integers(num_words, size=(n, 10))
body_data = rng.integers(num_words, size=(n, 60))
tags_data = rng.integers(2, size=(n, num_tags)).astype("float32")
# Dummy target data
priority_targets = (tags_data[:, :3].sum(axis=1) > 1.5).astype("float32")[:, None]
dept = (tags_data[:, 3] * 2 + tags_data[:, 4]).astype(int)
dept_targets = np.eye(num_departments)[dept]
hours = 2.0 + 5 * tags_data[:, 5] + rng.exponential(1.0, size=n)

hist = model.fit(
    {"title": title_data, "body": body_data, "tags": tags_data},
    {"priority": priority_targets, "department": dept_targets, "hours": hours},
    epochs=3,
    batch_size=32,
    validation_split=0.2,
    verbose=2,
)

p = model.predict({"title": title_data[:5], "body": body_data[:5], "tags": tags_data[:5]}, verbose=0)
print({k: v.shape for k, v in p.items()})
hh = hist.history
print("RESULT", *[f"{k}={hh[k][-1]:.5f}" for k in
                  ("loss", "priority_loss", "department_loss", "hours_loss", "val_loss", "val_department_acc", "val_department_top2", "val_hours_mse")],
      f"mean_hours={float(p['hours'].mean()):.5f}")
