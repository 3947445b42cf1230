"""One model in all of its quantizations: which is the fastest on each machine, and what it costs.

speeds    the quantizations of a model on each machine, compared
memory    what a configuration takes of the memory that holds it
verdict   the answer in words
"""

from app.results.model.memory import MemoryUsed
from app.results.model.speeds import MachineSpeeds, ModelSpeeds, QuantizationSpeed, model_speeds
from app.results.model.verdict import machine_words, model_words

__all__ = [
    "MachineSpeeds",
    "MemoryUsed",
    "ModelSpeeds",
    "QuantizationSpeed",
    "machine_words",
    "model_speeds",
    "model_words",
]
