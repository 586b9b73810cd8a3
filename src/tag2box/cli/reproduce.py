"""`tag2box reproduce`: the paper's tables, ours beside theirs."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tag2box.cli.options import AsJson, Run, Workers, shown
from tag2box.errors import InputError

reproduce = typer.Typer(no_args_is_help=True, help="The paper's tables, ours beside theirs.")
Data = Annotated[Path, typer.Option(help="VOC 2007 in the devkit's layout, with its Annotations.")]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds 0 to N-1 of the sample, and of negatives.")]
Out = Annotated[Path, typer.Option(help="Where results go, and are found again.")]


@reproduce.callback()
def _group() -> None:
    pass


@reproduce.command("table1")
def table1(
    data: Annotated[Path, typer.Option(help="Folder with the 12 sets as NAME.npz.")],
    sets: Annotated[list[str] | None, typer.Option(help="Only these sets, for example musk1,fox.")] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True, help="More sets, after --sets.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0 to N-1 of the ten folds.")] = 1,
    out: Out = Path("runs/table1"),
    honest: Annotated[bool, typer.Option(help="Also choose settings inside each training part.")] = True,
    every: Annotated[bool, typer.Option("--all", help="The classics and other machines, too.")] = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Latent SVMs on the 12 multiple-instance sets, beside the paper's figures.

    Four columns, by the paper's protocol and an honest one; with --all other machines in their place. Writes
    table1.md and table1.json (table1-all.md and table1-all.json) to OUT; a run that was stopped goes on where
    it stopped.

    Example: tag2box reproduce table1 --data mil --sets musk1,fox --seeds 2
    """
    from rich.console import Console

    from tag2box.reproduce import show_machines, show_table1
    from tag2box.reproduce.machines import ALL, COLUMNS
    from tag2box.reproduce.mil_sets import SETS
    from tag2box.reproduce.table1 import run_table1, stacked

    names = [name for item in [*(sets or []), *(more or [])] for name in item.split(",")] or list(SETS)
    if unknown := [name for name in names if name not in SETS]:
        raise InputError(f"no set {unknown[0]!r}: the sets are {', '.join(SETS)}")
    columns, show, stem = (ALL, show_machines, "table1-all") if every else (COLUMNS, show_table1, "table1")
    options: dict[str, Any] = {"columns": columns, "honest": honest, "workers": workers}
    with shown() as progress:
        cells = run_table1(data, names, range(seeds), out, progress=progress, **options)
    table = show.as_dict(cells + stacked(cells, data), honest)
    written = _written(out, stem, table, show.as_markdown(table), as_json)
    if not as_json:
        for view in show.as_rich(table):
            Console().print(view)
        typer.echo(written)


def _table_of_voc(name: str, classes: str, data: Path, out: Path, seeds: int, **options: Any) -> None:
    """Table 2 or 3. classes: the name of its tuple of classes in `reproduce.printed`."""
    from tag2box.data.reading import read_images
    from tag2box.report.collecting import write_report
    from tag2box.reproduce import printed
    from tag2box.reproduce.show_voc import as_dict, as_markdown
    from tag2box.reproduce.voc_tables import run_voc_table

    names, as_json = getattr(printed, classes), options.pop("as_json")
    with shown() as progress:
        cells = run_voc_table(data, names, out, seeds=seeds, progress=progress, **options)
    table = as_dict(cells, names)
    written = _written(out, name, table, as_markdown(table), as_json)
    page = write_report(out / "train", truths=[read_images(data, split="trainval")])
    if not as_json:
        typer.echo(f"{as_markdown(table)}\n{written}, {page}")


def _written(out: Path, stem: str, table: Any, markdown: str, as_json: bool) -> str:
    """Write both files of a table, print it where JSON is wanted, and say where it is."""
    from tag2box.runtime.files import write_whole

    text = json.dumps(table, indent=2)
    write_whole(out / f"{stem}.json", text + "\n")
    write_whole(out / f"{stem}.md", markdown)
    if as_json:
        typer.echo(text)
    return f"Written: {out / f'{stem}.md'}, {out / f'{stem}.json'}"


@reproduce.command("table2")
def table2(
    data: Data,
    seeds: Seeds = 1,
    out: Out = Path("runs/table2"),
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Detection on six classes of VOC 2007, from tags: the paper's rows, and ours, beside its figures.

    Writes table2.md, table2.json and a report of the last row to OUT; a run that was stopped goes on where it
    stopped.

    Example: tag2box reproduce table2 --data VOC2007 --seeds 3
    """
    _table_of_voc("table2", "SIX", data, out, seeds, workers=workers, as_json=as_json)


@reproduce.command("table3")
def table3(
    data: Data,
    seeds: Seeds = 1,
    out: Out = Path("runs/table3"),
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Detection on all 20 classes of VOC 2007, from tags, beside the paper's figures.

    Writes table3.md, table3.json and a report of the last row to OUT; a run that was stopped goes on where it
    stopped.

    Example: tag2box reproduce table3 --data VOC2007
    """
    _table_of_voc("table3", "CLASSES", data, out, seeds, workers=workers, as_json=as_json)


Picture = Annotated[Path | None, typer.Option("--out", help="The PNG file; in RUN by default.")]


@reproduce.command("figure2")
def figure2(run: Run, out: Picture = None) -> None:
    """Draw the windows nearest to the first one that the cover selects, for each class: the paper's Figure 2.

    Example: tag2box reproduce figure2 --run runs/photos
    """
    _figure("figure2", "first_clusters", run, out)


@reproduce.command("figure5")
def figure5(run: Run, out: Picture = None) -> None:
    """Draw windows of the cover (green) beside those of negative mining (red): the paper's Figure 5.

    Example: tag2box reproduce figure5 --run runs/photos
    """
    _figure("figure5", "mined_windows", run, out)


@reproduce.command("convergence")
def convergence(run: Run, out: Picture = None) -> None:
    """Draw the objective of the refinement and the number of windows it holds, round by round.

    Example: tag2box reproduce convergence --run runs/photos
    """
    _figure("convergence", "convergence", run, out)


def _figure(name: str, function: str, folder: Path, out: Path | None) -> None:
    from tag2box.reproduce import figures

    path = out or folder / f"{name}.png"
    getattr(figures, function)(figures.read_song2014(folder)).save(path, "PNG")
    typer.echo(f"Written: {path}")
