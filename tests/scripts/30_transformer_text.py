"""Text classification with a Transformer block (MultiHeadAttention), AdamW + warm-up schedule"""
import numpy as np
import keras
from keras import layers, ops

vocab_size = 3000
maxlen = 64


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim // num_heads)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1 = layers.Dropout(rate)
        self.dropout2 = layers.Dropout(rate)

    def call(self, inputs):
        attn_output = self.att(inputs, inputs)
        attn_output = self.dropout1(attn_output)
        out1 = self.layernorm1(inputs + attn_output)
        ffn_output = self.ffn(out1)
        ffn_output = self.dropout2(ffn_output)
        return self.layernorm2(out1 + ffn_output)


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
        self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

    def call(self, x):
        positions = ops.arange(0, ops.shape(x)[-1], 1)
        return self.token_emb(x) + self.pos_emb(positions)


class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, d_model, warmup_steps=40):
        self.d_model, self.warmup_steps = float(d_model), warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0
        return self.d_model ** -0.5 * ops.minimum(step ** -0.5, step * self.warmup_steps ** -1.5) * 0.1


def toy_reviews(n, seed):
    # the label depends on the order: "not" (word 5) flips the next opinion word
    rng = np.random.default_rng(seed)
    x = np.minimum(rng.zipf(1.4, size=(n, maxlen)) + 50, vocab_size - 1)
    score = np.zeros(n)
    for _ in range(4):
        pos = rng.integers(0, maxlen // 2, n) * 2
        word = rng.integers(10, 30, n)
        neg = rng.random(n) < 0.3
        x[np.arange(n), pos + 1] = word
        x[np.arange(n)[neg], pos[neg]] = 5
        score += np.where(word < 20, 1, -1) * np.where(neg, -1, 1)
    length = rng.integers(maxlen // 2, maxlen, n)
    x[np.arange(maxlen)[None] >= length[:, None]] = 0
    return x, (score + rng.normal(0, 0.1, n) > 0).astype("int64")


keras.utils.set_random_seed(2020)
x_train, y_train = toy_reviews(3000, 0)
x_val, y_val = toy_reviews(600, 1)

embed_dim = 32  # Embedding size for each token
inputs = layers.Input(shape=(maxlen,))
x = TokenAndPositionEmbedding(maxlen, vocab_size, embed_dim)(inputs)
x = TransformerBlock(embed_dim, 2, 64)(x)
x = layers.GlobalAveragePooling1D()(x)
x = layers.Dropout(0.1)(x)
x = layers.Dense(20, activation="relu")(x)
outputs = layers.Dense(2, activation="softmax")(x)
model = keras.Model(inputs=inputs, outputs=outputs)

optimizer = keras.optimizers.AdamW(Warmup(embed_dim), weight_decay=0.01, beta_2=0.98)
optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=32, epochs=3, validation_data=(x_val, y_val), verbose=2)
h = history.history
print("RESULT loss=%.5f acc=%.5f val_loss=%.5f val_acc=%.5f" % (h["loss"][-1], h["accuracy"][-1], h["val_loss"][-1], h["val_accuracy"][-1]))
