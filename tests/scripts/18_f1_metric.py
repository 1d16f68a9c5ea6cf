"""Custom stateful metric (macro F1 by confusion matrix) and a custom regulariser, all in Keras 3 ops."""
import keras
import numpy as np
from keras import ops

keras.utils.set_random_seed(31)


@keras.saving.register_keras_serializable(package="my")
class MacroF1(keras.metrics.Metric):
    def __init__(self, num_classes, name="macro_f1", **kwargs):
        super().__init__(name=name, **kwargs)
        self.num_classes = num_classes
        self.cm = self.add_variable(shape=(num_classes, num_classes), initializer="zeros", name="cm")

    def update_state(self, y_true, y_pred, sample_weight=None):
        t = ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), self.num_classes)
        p = ops.one_hot(ops.argmax(y_pred, axis=-1), self.num_classes)
        if sample_weight is not None:
            t = t * ops.reshape(ops.cast(sample_weight, t.dtype), (-1, 1))
        self.cm.assign_add(ops.matmul(ops.transpose(t), p))

    def result(self):
        tp = ops.diagonal(self.cm)
        f1 = 2 * tp / (ops.sum(self.cm, axis=0) + ops.sum(self.cm, axis=1) + 1e-7)
        return ops.mean(f1)

    def reset_state(self):
        self.cm.assign(ops.zeros_like(self.cm))

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes}


class OrthoReg(keras.regularizers.Regularizer):
    def __call__(self, w):
        g = ops.matmul(ops.transpose(w), w)
        return 1e-3 * ops.sum(ops.square(g - ops.eye(w.shape[1])))

    def get_config(self):
        return {}


# glass / wine like data: 6 classes, some rare
rng = np.random.default_rng(31)
share = np.array([0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
y = rng.choice(6, size=8000, p=share)
centers = rng.normal(0, 1.2, size=(6, 9))
X = (centers[y] + rng.normal(0, 1.3, size=(8000, 9))).astype("float32")
X_train, X_test, y_train, y_test = X[:6000], X[6000:], y[:6000], y[6000:]

# rare classes count more
freq = np.bincount(y_train, minlength=6) / len(y_train)
sample_weight = np.sqrt(1.0 / freq)[y_train]

model = keras.Sequential([
    keras.layers.Input((9,)),
    keras.layers.Normalization(),
    keras.layers.Dense(48, kernel_regularizer=OrthoReg()),
    keras.layers.LeakyReLU(negative_slope=0.2),
    keras.layers.GaussianNoise(0.05),
    keras.layers.Dense(24, activation="tanh", kernel_constraint=keras.constraints.MaxNorm(2.0)),
    keras.layers.Dense(6, activation="softmax"),
])
model.layers[0].adapt(X_train)
model.compile("adam", "sparse_categorical_crossentropy",
              metrics=[MacroF1(6), "accuracy"], weighted_metrics=[MacroF1(6, name="weighted_f1")])
h = model.fit(X_train, y_train, sample_weight=sample_weight, batch_size=100, epochs=4, verbose=2,
              validation_data=(X_test, y_test))
ev = model.evaluate(X_test, y_test, return_dict=True, verbose=0)
model.save("f1.keras")
print("RESULT loss={:.5f} f1={:.5f} weighted_f1={:.5f} test_loss={:.5f} test_f1={:.5f} test_acc={:.5f}".format(
    h.history["loss"][-1], h.history["macro_f1"][-1], h.history["weighted_f1"][-1], ev["loss"], ev["macro_f1"], ev["accuracy"]))
