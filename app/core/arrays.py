"""numpy, which is loaded when it is first used, and the types of its arrays.

Loading it takes 70 ms and 13 MB. The server starts, commands run, and pages without a history are shown without it.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    Array = np.ndarray[Any, Any]
    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Floats32 = np.ndarray[Any, np.dtype[np.float32]]
    Places = np.ndarray[Any, np.dtype[np.intp]]
    Integers = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
    Booleans = np.ndarray[Any, np.dtype[np.bool_]]
else:

    class _LazyModule(ModuleType):
        """Imports the module of its name when an attribute is first asked for, and then has all of its attributes."""

        def __getattr__(self, name: str) -> Any:
            module = import_module(self.__name__)
            vars(self).update((key, value) for key, value in vars(module).items() if not key.startswith("__"))
            return getattr(module, name)

    np = _LazyModule("numpy")
    ArrayLike = Array = Floats = Floats32 = Places = Integers = Booleans = Any

__all__ = ["Array", "ArrayLike", "Booleans", "Floats", "Floats32", "Integers", "Places", "np"]
