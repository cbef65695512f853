"""The table of aggregates: names, arguments, types, texts; what they compute is Spark's test."""

import pytest

from shoal.kernel.errors import LocalError, UserError
from shoal.query.terms.types import is_numeric, parse_type
from shoal.query.windows.aggregates import AGGREGATES, Argument, measure, name_of, why_not
from shoal.query.windows.plan import Measure
from shoal.query.windows.sketches import rankable

TYPES = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(10,2)", "DECIMAL(35,2)", "DECIMAL(38,38)"),
    *("STRING", "BINARY", "BOOLEAN", "DATE", "TIMESTAMP"),
)


def of(function: str, *types: str, where: str = "", fixed: tuple[float, ...] = ()) -> Measure:
    names = ("x", "y")
    arguments = tuple(
        Argument(text=f"s.`{name}`", type=type_) for name, type_ in zip(names, types, strict=False)
    )
    return measure(function, arguments, name="a7", where=where, fixed=fixed)


def allowed(function: str, type_: str) -> bool:
    kind = AGGREGATES[function].kinds[0]
    if kind == "numeric":
        return is_numeric(type_)
    if kind == "ranked":
        return rankable(type_)
    return kind == "ordered" or type_ == "BOOLEAN"


def every(where: str = "") -> list[Measure]:
    """One measure of every function for every type that it takes."""
    found = [of("count", where=where)]
    for function, known in AGGREGATES.items():
        fixed = (0.5,) * known.least
        for type_ in TYPES:
            types = (type_, "BIGINT")[: len(known.kinds)]
            if allowed(function, type_):
                found.append(of(function, *types, where=where, fixed=fixed))
    return found


def test_synonyms_and_case_have_one_name() -> None:
    pairs = {
        "MEAN": "avg",
        "every": "bool_and",
        "some": "bool_or",
        "Any": "bool_or",
        "std": "stddev_samp",
        "stddev": "stddev_samp",
        "variance": "var_samp",
        "percentile_approx": "approx_percentile",
        "try_sum": "sum",
    }
    assert {name: name_of(name) for name in pairs} == pairs
    assert all(name_of(name) == name for name in AGGREGATES)
    assert name_of("upper") == ""


def test_partials_have_the_measures_name_first_and_types_that_a_column_can_have() -> None:
    for made in every():
        assert made.name == "a7"
        assert parse_type(made.type) == made.type
        assert made.partials
        for partial in made.partials:
            assert partial.name.startswith("a7_")
            assert parse_type(partial.type) == partial.type
        assert len(dict.fromkeys(partial.name for partial in made.partials)) == len(made.partials)


def test_only_make_reads_tuples_and_only_merge_and_final_read_panes() -> None:
    for made in every(where="s.`y` > 2"):
        for partial in made.partials:
            assert "s.`" in partial.make
            assert "`a7_" not in partial.make
            assert "s.`" not in partial.merge
            assert "`a7_" in partial.merge
        assert "s.`" not in made.final
        assert "`a7_" in made.final


def test_a_filter_is_in_every_aggregate_of_make_and_nowhere_else() -> None:
    plain, filtered = every(), every(where="s.`y` > 2")
    for without, made in zip(plain, filtered, strict=True):
        assert made.final == without.final
        for partial, bare in zip(made.partials, without.partials, strict=True):
            assert partial.merge == bare.merge
            assert partial.make.count("s.`y` > 2") == partial.make.count("FILTER (WHERE ")
            assert partial.make.count("FILTER (WHERE ") >= 1
            assert ("s.`y` > 2" in partial.each) == bool(bare.each)
            assert "s.`y` > 2" not in bare.make


def test_types_are_those_of_spark() -> None:
    assert of("count").type == "BIGINT"
    assert of("sum", "TINYINT").type == "BIGINT"
    assert of("sum", "FLOAT").type == "DOUBLE"
    assert of("sum", "DECIMAL(10,2)").type == "DECIMAL(20,2)"
    assert of("avg", "INT").type == "DOUBLE"
    assert of("avg", "DECIMAL(10,2)").type == "DECIMAL(14,6)"
    assert of("min", "STRING").type == "STRING"
    assert of("stddev", "DECIMAL(10,2)").type == "DOUBLE"
    assert of("max_by", "STRING", "DATE").type == "STRING"
    assert of("approx_percentile", "DATE", fixed=(0.5,)).type == "DATE"


def test_the_texts_of_a_few(golden) -> None:  # type: ignore[no-untyped-def]
    shown = []
    for made in (
        of("count"),
        of("avg", "DOUBLE"),
        of("sum", "BIGINT", where="s.`y` > 2"),
        of("avg", "DECIMAL(10,2)"),
        of("sum", "DECIMAL(35,2)"),
        of("max", "DOUBLE"),
        of("max_by", "STRING", "BIGINT"),
        of("stddev", "INT"),
        of("approx_count_distinct", "STRING"),
        of("approx_percentile", "DOUBLE", fixed=(0.9,)),
    ):
        shown.append(f"{made.type}\n    final {made.final}")
        for part in made.partials:
            shown.append(f"    {part.name} {part.type}")
            shown += [f"        make  {part.make}", f"        merge {part.merge}"]
            shown += [f"        each  {part.each}"] if part.each else []
    golden("query/aggregates/texts.txt", "\n".join(shown) + "\n")


@pytest.mark.parametrize(
    ("function", "types", "what"),
    [
        ("sum", ("STRING",), "sum cannot take a STRING"),
        ("avg", ("DATE",), "avg cannot take a DATE"),
        ("bool_and", ("INT",), "bool_and cannot take a INT"),
        ("count_if", ("STRING",), "count_if cannot take a STRING"),
        ("min", ("VOID",), "min cannot take NULL alone"),
        ("sum", (), "sum takes one argument"),
        ("count", ("INT", "INT"), "count takes one argument"),
        ("max_by", ("INT",), "max_by takes 2 arguments"),
        ("approx_percentile", ("STRING",), "approx_percentile cannot take a STRING"),
        ("approx_percentile", ("DECIMAL(19,2)",), "approx_percentile cannot take a DECIMAL(19,2)"),
    ],
)
def test_what_does_not_fit_is_refused(function: str, types: tuple[str, ...], what: str) -> None:
    fixed = (0.5,) * AGGREGATES[function].least
    with pytest.raises(UserError) as refused:
        of(function, *types, fixed=fixed)
    assert refused.value.what == what


def test_constants_are_counted() -> None:
    with pytest.raises(UserError, match="approx_percentile takes 1 to 2 constants"):
        of("approx_percentile", "INT")
    with pytest.raises(UserError, match="sum takes 0 to 0 constants"):
        of("sum", "INT", fixed=(0.5,))


def test_what_is_no_aggregate_here_says_what_could_be_used() -> None:
    for name in ("first", "last", "collect_list", "median", "percentile", "mode", "listagg"):
        assert why_not(name), name
        assert name_of(name) == ""
    assert "approx_percentile" in why_not("MEDIAN")
    assert "max_by" in why_not("last_value")
    assert why_not("sum") == ""
    assert why_not("upper") == ""
    with pytest.raises(LocalError):
        of("median", "INT")


def test_distinct_is_refused_with_what_could_be_used() -> None:
    assert "approx_count_distinct" in why_not("count", distinct=True)
    assert "leave it out" in why_not("max", distinct=True)
    assert "SELECT DISTINCT" in why_not("sum", distinct=True)
