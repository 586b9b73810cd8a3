"""Competition: the tags of a photo share its object maps among them. Beyond the paper.

An object map shows what is salient in the photos of a class: a horse for "person", where people ride. In a
photo of several tags, the softmax over them of the activation u_cᵀx, less its mean in the photo, is the share
of each in the map.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.description.record import Described
from tag2box.runtime.blas import one_thread
from tag2box.runtime.stages import stage
from tag2box.training.activations import Activations
from tag2box.training.object_maps import ObjectMaps, Objectness, by_details, measure_objectness


@stage("competition", version=3)
def compete(
    photos: tuple[Described, Objectness, NDArray[np.int8]],
    object_maps: ObjectMaps,
    activations: Activations,
    ring: float,
) -> Objectness:
    """The objectness of all windows by maps that the tags of a photo share.

    photos: their windows and maps, the objectness by maps that are not shared, and tags. The two differ in
    photos of several tags.
    """
    described, alone, tags = photos
    values = np.array(alone.values)
    with one_thread():  # products of one photo are small
        for i, (a, z) in enumerate(described.spans()):
            present, map_ = np.flatnonzero(tags[i] == 1), described.map_of(i)
            if len(present) > 1 and map_ is not None:
                shared = object_maps(map_)[present] * activations.shares(map_, present)
                windows = described.windows
                values[a:z, present] = measure_objectness(shared, windows[i], windows.sizes[i], ring)
                details = described.details_of(i)
                if details is not None:  # they compete already: each was learned against the other classes
                    small = by_details(details)
                    values[a:z, small] = alone[i][:, small]
    return Objectness(values, alone.offsets)
