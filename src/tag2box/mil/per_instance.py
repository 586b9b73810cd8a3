"""`PerInstance`: transformers of rows, such as scikit-learn's, in front of machines that take bags."""

from typing import Any

from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from tag2box.mil.bags import Bags, as_bags


class PerInstance(TransformerMixin, BaseEstimator):
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
    >>> import tag2box as t2b
    >>> bags = t2b.Bags([[0.0], [2.0], [4.0]], offsets=[0, 2, 3])
    >>> t2b.PerInstance(StandardScaler(with_std=False)).fit_transform(bags)[1].tolist()
    [[2.0]]
    >>> model = make_pipeline(t2b.PerInstance(StandardScaler()), t2b.SmoothLatentSVC())
    >>> model.fit(bags, [-1, 1]).predict(bags).tolist()
    [-1, 1]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, bags: Any, y: Any = None) -> "PerInstance":  # noqa: ARG002
        """Fit the transformer on all instances.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.
        y : None
            Ignored, present for scikit-learn's sake.

        Returns
        -------
        PerInstance
            The fitted transformer.
        """
        self.transformer_ = clone(self.transformer).fit(as_bags(bags).X)
        return self

    def transform(self, bags: Any) -> Bags:
        """Transform the instances of bags.

        Parameters
        ----------
        bags : Bags or list of matrices
            The bags.

        Returns
        -------
        Bags
            The same bags with their instances transformed.
        """
        check_is_fitted(self)
        bags = as_bags(bags)
        return Bags(self.transformer_.transform(bags.X), bags.offsets)

    def set_output(self, *, transform: str | None = None) -> "PerInstance":  # noqa: ARG002
        """Do nothing: bags stay bags in a pipeline whose rows become frames.

        Parameters
        ----------
        transform : str, default=None
            Ignored, present for scikit-learn's sake.

        Returns
        -------
        PerInstance
            The transformer.
        """
        return self
