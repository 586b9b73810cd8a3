"""Methods: which stages learn to score a window, and in which order. A page each."""

from collections.abc import Callable

from tag2box.config import Config
from tag2box.methods.song2014 import song2014
from tag2box.methods.two_stream import two_stream
from tag2box.runtime.stages import Run
from tag2box.training.known import Known
from tag2box.training.learned import Learned

__all__ = ["METHODS"]

Method = Callable[[Known, Config, Run], Learned]

METHODS: dict[str, Method] = {"two_stream": two_stream, "song2014": song2014}
