"""Refusals that are right: what the reference pages say is not computed, by words of the message.

Any other refusal of a model that Keras builds, saves, loads and trains is a finding.
"""

import re

# Words of the message, and what they stand for.
RIGHT = (
    (r"received AdditiveAttention", "a layer that the page lists as refused"),
    (r"score_mode: expected \"dot\"", "attention by sums"),
    (r"(alpha|embeddings)_constraint: expected none", "constraints of PReLU and Embedding"),
    (r"expected an activation that works element by element", "softmax inside of a recurrence"),
    (r"stateful", "states of cells and of convolutions that outlive a batch, or another batch"),
    (r"without scores|masks or scores|call for scores", "attention's scores as an output"),
    (r"attention_axes", "attention over other axes than those between batch and channels"),
    (r"shared_axes: expected axes", "PReLU along an axis that is none"),
    (r"the channels, received .* Put the channels last", "channels in front of the places"),
    (r"expected one axis after the batch, received \[", "unit length along several axes"),
    (r"expected a slice in steps of", "every second element"),
    (r"expected an operator that Plimsoll trains, received (Max|Absolute)", "operators"),
    (r"sum_over_batch_size or sum together with sample weights", "a mean over weights"),
    (r"channels last with a mask", "a masked mean with the channels in front"),
    # Keras repeats such a mask along another axis, or fails.
    (r"expected a mask of the axis that is averaged", "a mean over another axis than the mask's"),
    (r"expected values without a mask", "BatchNormalization over other axes under a mask"),
    (r"one of the layers Activation, ELU", "a layer with weights as an activation"),
    (r"axis: expected -1 or \d+, the last of", "losses along another axis"),
    (r"a layer without activity_regularizer", "penalties of outputs inside of wrappers"),
    (r"expected attention's|return_attention_scores", "attention's scores"),
    # Keras's product of the two has a dimension of samples for each of both.
    (r"expected a mask of the loss's shape", "a mask of two dimensions less than the loss"),
)


def is_right(message: str) -> bool:
    """Whether a refusal is one that the reference pages announce."""
    return any(re.search(words, message) for words, _ in RIGHT)
