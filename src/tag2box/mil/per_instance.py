"""`PerInstance`: transformers of rows, such as scikit-learn's, in front of estimators of bags."""

from typing import Any

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tag2box.mil.bags import Bags, as_bags
from tag2box.mil.base import BagTransformer


class PerInstance(BagTransformer):
    """Apply a scikit-learn transformer to the instances of bags.

    The transformer is fitted without labels: bags have them, instances do not.

    Parameters
    ----------
    transformer : transformer
        A scikit-learn transformer of matrices, such as `StandardScaler`.

    Attributes
    ----------
    transformer_ : transformer
        The fitted transformer.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from tag2box.mil import Bags, PerInstance, SmoothLatentSVC
    >>> bags = Bags([[0.0], [2.0], [4.0]], offsets=[0, 2, 3])
    >>> PerInstance(StandardScaler(with_std=False)).fit_transform(bags)[1].tolist()
    [[2.0]]
    >>> model = make_pipeline(PerInstance(StandardScaler()), SmoothLatentSVC())
    >>> model.fit(bags, [-1, 1]).predict(bags).tolist()
    [-1, 1]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def _check_first(self, bags: Any) -> Bags:
        return as_bags(bags)  # the transformer may be an imputer

    def _check_bags(self, bags: Any) -> Bags:
        check_is_fitted(self)
        return as_bags(bags)

    def _fit(self, bags: Bags) -> None:
        self.transformer_ = clone(self.transformer).fit(bags.X)

    def _transform(self, bags: Bags) -> Bags:
        return Bags(self.transformer_.transform(bags.X), bags.offsets)

    def set_output(self, *, transform: str | None = None) -> "PerInstance":  # noqa: ARG002
        """Do nothing: bags stay bags in a pipeline whose rows become frames.

        Parameters
        ----------
        transform : str, default=None
            Ignored, as bags are no rows.

        Returns
        -------
        PerInstance
            The transformer.
        """
        return self
