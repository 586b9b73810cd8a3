"""`Description`: how a photo becomes windows, vectors and a map. Fitted once, kept with the detector.

description = fit_description(sample, widths, settings)     # sample: photos as the network sees them
described = describe("photo.jpg", description)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.description.context import Context, fit_context
from tag2box.description.projection import PartwiseProjection, Projection, fit_parts
from tag2box.description.record import Described, Maps
from tag2box.description.resolving import DescriptionConfig
from tag2box.errors import InputError
from tag2box.runtime.blas import one_thread
from tag2box.runtime.packing import stored
from tag2box.windows.record import Windows


@stored
@dataclass(frozen=True)
class Description:
    """How a photo is described: by which windows and network, and what is made of the network's numbers.

    Parameters
    ----------
    settings : DescriptionConfig
        The settings, with nothing left open.
    projection : Projection
        The projection of what a window looks like alone.
    context : Context, default=None
        What the maps of the photo add to the vector of a window.

    See Also
    --------
    describe : Describes one photo.

    Examples
    --------
    A run fits it, and a detector has it: ``detector.description``. This one keeps the first eight numbers.

    >>> import numpy as np
    >>> import tag2box as t2b
    >>> from tag2box.description.projection import Projection
    >>> from tag2box.description.resolving import resolve
    >>> features = t2b.FeaturesConfig(levels=(96,), grid=1, precision="f32")
    >>> settings = resolve(t2b.WindowsConfig(mode="single", max_windows=5), features, None)
    >>> projection = Projection(np.zeros(320, np.float32), np.eye(320, 8, dtype=np.float32), "l2", 20.0)
    >>> description = t2b.Description(settings, projection)
    >>> description.width
    8
    """

    settings: DescriptionConfig
    projection: Projection | PartwiseProjection
    context: Context | None = None

    @property
    def width(self) -> int:
        """The numbers of a vector."""
        return self.projection.width + (self.context.width if self.context else 0)

    def project(self, raw: NDArray[np.float32]) -> NDArray[np.floating]:
        """Project what windows look like alone.

        Parameters
        ----------
        raw : ndarray of float32 of shape (n, D)
            What the network says of each.

        Returns
        -------
        ndarray of shape (n, d)
            The first part of their vectors.
        """
        features = self.settings.features
        with np.errstate(over="ignore"):
            vectors = self.projection(raw).astype(features.dtype)
        if not np.isfinite(vectors).all():
            raise InputError(
                f'features of length {features.length:g} do not fit: set features.dtype to "float32"'
            )
        return vectors

    def around(self, windows: Windows, maps: Maps | None, fine: Maps | None) -> NDArray[np.floating]:
        """Say what the maps of one photo add to the vectors of its windows.

        Parameters
        ----------
        windows : Windows
            The windows of the photo.
        maps : Maps or None
            Its last map.
        fine : Maps or None
            The finer one.

        Returns
        -------
        ndarray of shape (n, context.width)
            The second part of their vectors; of no width without context.
        """
        dtype = self.settings.features.dtype
        if self.context is None:
            return np.empty((len(windows.xyxy), 0), dtype)
        with one_thread():  # products of one photo are small
            parts = [self.context(each[0], windows.xyxy, windows.sizes[0]) for each in (maps, fine) if each]
        return np.concatenate(parts, axis=1).astype(dtype)


def fit_description(sample: Described, widths: Sequence[int], settings: DescriptionConfig) -> Description:
    """The projection and the context, from a sample of photos as `raw_photo` gives them.

    The PCA of the projection is that of some windows of each photo. widths: the parts of their vectors.
    """
    features, maps = settings.features, settings.maps
    rng = np.random.default_rng(features.seed)
    rows = [a + np.sort(rng.permutation(z - a)[: features.sample_windows]) for a, z in sample.spans()]
    vectors = sample.X[np.concatenate([np.empty(0, np.int64), *rows])]
    if len(vectors) == 0:
        raise InputError("there is no window in the sampled images: nothing to fit the projection on")
    projection = fit_parts(
        vectors, widths, features.dimensions, features.whitening, features.norm, features.length
    )
    context = fit_context(sample.maps, maps) if sample.maps and maps and maps.context else None
    return Description(settings, projection, context)
