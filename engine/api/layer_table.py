"""What is known of each layer as columns: for notebooks and scripts that plot or compare.

pandas is imported only where a frame is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.base.errors import UsageError
from engine.wire.build import Analysis
from engine.wire.compile import CompiledModels
from engine.wire.cost import Estimates
from engine.wire.hybrid import Ranked
from engine.wire.layer_tables import LAYERS, most_worth, worth_promoting
from engine.wire.layers import LayerFigures, by_layer, layer_rows

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class LayerTable:
    """Layers, one row each.

    Attributes:
        rows: what is known of each, by its source; None where nothing is.
    """

    rows: tuple[LayerFigures, ...]

    def most_worth(self) -> LayerTable:
        """The same layers, first those that are most worth promoting.

        What gains most at the outputs for the time that it adds comes first, where gains are known
        (those of a proposal); else what has the lowest SQNR.
        """
        return LayerTable(most_worth(self.rows)[0])

    def worth_promoting(self, time_ms: float | None = None) -> list[Ranked]:
        """The promotions of a proposal that gain, the best gain within 5 % of the time first.

        Args:
            time_ms: of an inference as it is; None: what they cost does not count.
        """
        return worth_promoting(self.rows, time_ms)

    def to_dict(self) -> dict[str, list[Any]]:
        """Column -> its values in the order of the rows, None where a row has none.

        The columns are those of CSV files: numbers in the units of their names, dB (infinite
        without noise), bytes, shares of 1. A column that no row has a value for is left out.
        """
        columns = {c.heads[0]: [c.of(row) for row in self.rows] for c in LAYERS.file_columns}
        return {head: values for head, values in columns.items() if _says(values)}

    def to_frame(self) -> pandas.DataFrame:
        """The same as a pandas frame whose index is the layer's id.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise UsageError(
                "A frame of layers needs pandas, which is not installed.",
                remedy="Install it (pip install pandas), or use to_dict().",
            ) from None
        return pandas.DataFrame(self.to_dict()).set_index("layer")


def _says(column: Iterable[Any]) -> bool:
    return any(value is not None and value != "" for value in column)


def layer_table(*answers: Any) -> LayerTable:
    """What several answers know of the same model, a row for each layer.

    Args:
        answers: of :func:`engine.estimate` (of one chip, or one of its ``chips``), of
            :func:`engine.analyse_model`, of a compilation, of a run on a board, a comparison with a
            board, the table of hybrid quantization or a proposal. Order and names are those of the
            first one; where two have the same figures, the first counts.

    Raises:
        UsageError: no answer, one that has no layers, or one of several chips.
    """
    if not answers:
        raise UsageError("There is no answer whose layers could be shown.", remedy="Give one.")
    return LayerTable(by_layer(*map(_rows, answers)))


def _rows(answer: Any) -> tuple[LayerFigures, ...]:
    from engine.accuracy.analyse import AccuracyReport

    if isinstance(answer, AccuracyReport):
        answer = Analysis(answer.samples, "", answer.layers, (), answer.rounding)
    if isinstance(answer, Estimates | CompiledModels):
        if len(answer.chips) != 1:
            raise UsageError(
                f"The answer is of {len(answer.chips)} chips; a row has the figures of one.",
                remedy="Give one of its chips, such as answer.chips[0].",
            )
        answer = answer.chips[0]
    try:
        return layer_rows(answer)
    except TypeError as error:
        raise UsageError(
            f"{error}.", remedy="Give an estimate, an analysis, or what a board or compiler said."
        ) from None
