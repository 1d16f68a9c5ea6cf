"""Weather-like forecasting with timeseries_dataset_from_array."""
import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

keras.utils.set_random_seed(4)

# hourly "weather": temperature, pressure, humidity, wind
hours = 6000
rng = np.random.default_rng(4)
t = np.arange(hours)
ar = np.zeros(hours)
for i in range(1, hours):
    ar[i] = 0.97 * ar[i - 1] + rng.normal(0, 0.6)
temp = 10 + 9 * np.sin(2 * np.pi * t / (24 * 90)) + 4 * np.sin(2 * np.pi * t / 24) + ar
pressure = 1000 - 0.8 * ar + rng.normal(0, 1, hours)
humidity = np.clip(70 - 1.5 * (temp - 10) + rng.normal(0, 5, hours), 0, 100)
wind = rng.gamma(2.0, 1.5, hours)
raw_data = np.stack([temp, pressure, humidity, wind], axis=1)
temperature = temp.copy()

num_train_samples = int(0.5 * len(raw_data))
num_val_samples = int(0.25 * len(raw_data))

mean = raw_data[:num_train_samples].mean(axis=0)
raw_data -= mean
std = raw_data[:num_train_samples].std(axis=0)
raw_data /= std

sampling_rate = 2
sequence_length = 48
delay = sampling_rate * (sequence_length + 12 - 1)
batch_size = 128


def make(start, end, shuffle=True):
    return keras.utils.timeseries_dataset_from_array(
        raw_data[:-delay],
        targets=temperature[delay:],
        sampling_rate=sampling_rate,
        sequence_length=sequence_length,
        shuffle=shuffle,
        seed=11,
        batch_size=batch_size,
        start_index=start,
        end_index=end)


train_dataset = make(0, num_train_samples)
val_dataset = make(num_train_samples, num_train_samples + num_val_samples)
test_dataset = make(num_train_samples + num_val_samples, None, shuffle=False)

for samples, targets in train_dataset:
    print("samples shape:", samples.shape, "targets shape:", targets.shape, samples.dtype)
    break


def naive_method(dataset):
    total, seen = 0.0, 0
    for samples, targets in dataset:
        preds = samples[:, -1, 0] * std[0] + mean[0]
        total += np.sum(np.abs(preds - targets))
        seen += samples.shape[0]
    return total / seen


inputs = keras.Input(shape=(sequence_length, raw_data.shape[-1]))
x = layers.GRU(24, recurrent_dropout=0.25, return_sequences=True)(inputs)
x = layers.GRU(24)(x)
x = layers.Dropout(0.3)(x)
outputs = layers.Dense(1)(x)
model = keras.Model(inputs, outputs)

callbacks = [keras.callbacks.ModelCheckpoint("jena_gru.keras", save_best_only=True)]
model.compile(optimizer="rmsprop", loss="mse", metrics=["mae"])
history = model.fit(train_dataset, epochs=3, validation_data=val_dataset, callbacks=callbacks)

model = keras.models.load_model("jena_gru.keras")
test_mae = model.evaluate(test_dataset)[1]
print("RESULT loss=%.5f val_mae=%.5f test_mae=%.5f naive_mae=%.5f" % (
    history.history["loss"][-1], history.history["val_mae"][-1], test_mae, naive_method(test_dataset)))
