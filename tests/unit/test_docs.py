"""What the documentation names exists, and what it copies is current."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from workers.agents.lane import OURS_IN_A_ROW
from workers.alerting.catalogue import ALERTS
from workers.alerting.catalogue import HISTORY_KNOWN as A_RECORDING
from workers.cli import cli
from workers.config import setting_keys
from workers.config_sources import variable_of
from workers.health import STALL_LIMIT, TICK_LIMIT
from workers.metrics import catalogue as metrics
from workers.metrics.spec import Metric
from workers.outputs.dlq import PREFIX as LETTER_PREFIX
from workers.processing import fingerprint, paths
from workers.processing.duplicates import DEFAULT_WINDOW
from workers.processing.erasure import KNOWN_TURNS
from workers.processing.fidelity import jsontext, verdict
from workers.processing.fidelity.rules import RULES, Rule
from workers.processing.policy import Policy
from workers.processing.state_write_kinds import KINDS
from workers.reasons import Reason
from workers.reasons_reference import PAGE as REASONS_PAGE
from workers.reasons_reference import RESERVED, reasons_page
from workers.serde import resolver, validation
from workers.serde.limits import TURN_LIMITS, Limits
from workers.serde.schemas import SUBJECTS, load, load_ids
from workers.transport.options import TransportOptions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "deploy/README.md", ROOT / "helm/README.md"])
SNIPPETS = sorted((DOCS / "snippets").glob("*.py"))

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_CALL = re.compile(r"(?<!--group )engram-stream ([^\n|>#;&`)]+)")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_internal_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target in _LINK.findall(text):
        file, _, anchor = target.partition("#")
        if "://" in target:
            continue
        place = page if not file else (page.parent / file).resolve()
        if not place.exists() or (anchor and anchor not in _anchors(place)):
            broken.append(target)
    assert not broken


def test_every_page_is_reached_from_the_index() -> None:
    reached, new = set(), {DOCS / "index.md"}
    while new:
        reached |= new
        links = {
            (page.parent / target.partition("#")[0]).resolve()
            for page in new
            for target in _LINK.findall(page.read_text(encoding="utf-8"))
            if "://" not in target and target.partition("#")[0].endswith(".md")
        }
        new = links - reached
    assert not set(DOCS.rglob("*.md")) - reached


def _calls(page: Path) -> Iterator[list[str]]:
    """Yield the words behind ``engram-stream`` of every call in the code of ``page``."""
    text = page.read_text(encoding="utf-8")
    code = [*_FENCE.findall(text), *_INLINE.findall(_FENCE.sub("", text))]
    for call in _CALL.findall("\n".join(code).replace("\\\n", " ")):
        yield call.split()


def _unknown_word(words: list[str]) -> str | None:
    """Return the first of ``words`` that is no command, or no option of the command before it."""
    found: click.Command = cli
    for word in words:
        if word.startswith("--"):
            options = {option for parameter in found.params for option in parameter.opts}
            if word.partition("=")[0] not in options:
                return word
        elif isinstance(found, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            following = found.get_command(click.Context(found), word)
            if following is None:
                return word
            found = following
    return None


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_and_option_named_is_one_of_ours(page: Path) -> None:
    wrong = [(" ".join(words), word) for words in _calls(page) if (word := _unknown_word(words)) is not None]
    assert not wrong


def test_every_configuration_shown_has_settings_that_exist() -> None:
    for page in PAGES:
        for block in re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            shown = {f"{section}.{key}" for section, keys in tomllib.loads(block).items() for key in keys}
            assert set() < shown <= set(setting_keys()), page


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_metric_setting_and_header_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    known_metrics = {value.name for value in vars(metrics).values() if isinstance(value, Metric)}
    for name in set(re.findall(r"\bengram_[a-z0-9_]+\b", text)):
        assert re.sub(r"_(bucket|sum|count)$", "", name) in known_metrics | {"engram_"}, name
    recordings = set(re.findall(r"\bengram:[a-z0-9_:]+\b", text))
    assert page.name == "alerts.md" or recordings <= {A_RECORDING.name}
    for variable in re.findall(r"\bENGRAM_[A-Z]+__[A-Z_]+\b", text):
        assert variable in {variable_of(key) for key in setting_keys()}, variable
    sections = {key.partition(".")[0] for key in setting_keys()}
    for inline in _INLINE.findall(_FENCE.sub("", text)):
        section, dot, key = inline.partition(".")
        if dot and section in sections and re.fullmatch(r"[a-z_]+", key) and key not in {"md", "yaml", "log"}:
            assert inline in setting_keys(), inline
    for header in re.findall(r"`(engram\.dlq\.[a-z_0-9]+)`", text):
        sources = (ROOT / "workers/outputs/dlq.py").read_text(encoding="utf-8")
        assert f'"{header.removeprefix(LETTER_PREFIX)}"' in sources, header


def test_every_alert_named_by_a_link_to_its_runbook_exists() -> None:
    for page in PAGES:
        for name in re.findall(r"runbooks/(\w+)\.md", page.read_text(encoding="utf-8")):
            assert name in ALERTS, (page, name)


def test_every_page_and_section_cited_in_the_code_exists() -> None:
    broken = []
    for source in sorted((ROOT / "workers").rglob("*.py")):
        text = source.read_text(encoding="utf-8")
        for cited, sections in re.findall(r'docs/([\w/.-]+\.md)((?:,? ?(?:and)? ?"[^"\n]+")*)', text):
            page = DOCS / cited
            titles = re.findall(r'"([^"]+)"', sections)
            headings = _HEADING.findall(page.read_text(encoding="utf-8")) if page.exists() else []
            if not page.exists() or any(title not in headings for title in titles):
                broken.append((_name(source), cited, sections))
        broken += [(_name(source), cited, "") for cited in re.findall(r"Source: docs/[\w/]+(?![\w/.-])", text)]
    assert not broken


def test_every_snippet_stands_in_a_page_as_it_is_in_its_file() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    for snippet in SNIPPETS:
        block = f"<!-- snippets/{snippet.name} -->\n```python\n{snippet.read_text(encoding='utf-8')}```\n"
        assert block in pages, f"copy docs/snippets/{snippet.name} into its page again"


def test_the_commands_of_the_readme_are_those_of_the_quick_start_which_is_run() -> None:
    quick_start = (DOCS / "quick-start.md").read_text(encoding="utf-8")
    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Your own turn")[2]
    block = shown.partition("```sh\n")[2].partition("```")[0]
    for line in filter(None, block.splitlines()):
        for command in re.split(r"; (?=kill|rm|wait)| && ", line.partition("  #")[0].rstrip()):
            assert command in quick_start, command


def test_the_transcripts_of_commands_that_need_no_kafka_are_what_they_print() -> None:
    for page in PAGES:
        for command, shown in re.findall(
            r"^```text\n\$ engram-stream ([^\n]+)\n(.*?)^```$",
            page.read_text(encoding="utf-8"),
            re.MULTILINE | re.DOTALL,
        ):
            assert CliRunner().invoke(cli, command.split()).output == shown, command


def test_the_page_of_reasons_is_current() -> None:
    hint = "run python -m workers.reasons_reference"
    assert (ROOT / REASONS_PAGE).read_text(encoding="utf-8") == reasons_page(), hint


def test_reserved_reasons_are_those_that_no_code_gives() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "workers").rglob("*.py")
        if not path.name.startswith("reasons")
    )
    assert {reason for reason in Reason if f"Reason.{reason.name}" not in sources} == RESERVED


def test_every_reason_named_in_a_table_or_sentence_exists() -> None:
    known = {str(reason) for reason in Reason}
    page = (DOCS / "limits.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\|`([a-z_]+)`\|$", page, re.MULTILINE)) <= known | {"bad_number", "too_deep"}


# -- tables that state facts of the code -------------------------------------------------------------------------------


def _rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below ``heading``, without its two head lines."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"{heading}\n")[2]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None, f"{page} has no table below {heading}"
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in table[0].splitlines()[2:]]


def _type_name(avro: Any) -> str:
    if isinstance(avro, str):
        return avro
    if avro["type"] in ("array", "map"):
        return f"{avro['type']} of {_type_name(avro['items' if avro['type'] == 'array' else 'values'])}"
    return str(avro.get("name") or avro.get("logicalType") or avro["type"])


def _fields(record: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, bool]]:
    """Yield (dotted path, type with ? where nullable, required) of every field outside the manifest."""
    for field in record["fields"]:
        nullable = isinstance(field["type"], list)
        inner = next(branch for branch in field["type"] if branch != "null") if nullable else field["type"]
        name = path + field["name"]
        yield name, _type_name(inner) + "?" * nullable, "default" not in field
        repeated = isinstance(inner, dict) and inner["type"] == "array"
        item = inner["items"] if repeated else inner
        if isinstance(item, dict) and item["type"] == "record" and name != "manifest":
            yield from _fields(item, f"{name}[]." if repeated else f"{name}.")


def test_the_table_of_turn_fields_is_the_schema() -> None:
    shown = [
        (cells[0].strip("`"), cells[1], cells[2].startswith("*required*"))
        for cells in _rows("producer-guide.md", "## Fields")
    ]
    assert shown == list(_fields(load("turns")))


def test_the_tables_of_verdict_and_state_write_fields_name_every_field_of_their_schema() -> None:
    for page, heading, subject in (
        ("consumer-guide.md", "## Fields", "fidelity"),
        ("concepts/state-writes.md", "## Record", "state-writes"),
    ):
        shown = [name for cells in _rows(page, heading) for name in re.findall(r"`(\w+)`", cells[0])]
        assert shown == [field["name"] for field in load(subject)["fields"]]


def test_the_table_of_rules_is_the_code_s() -> None:
    flat = [inner for rule in RULES for inner in ([rule] if isinstance(rule, Rule) else rule.rules)]
    rows = _rows("concepts/replay-fidelity.md", "## Rules")
    assert [(int(number), impact) for number, _, impact, _, _ in rows] == [
        (rule.number, rule.impact.value) for rule in flat
    ]
    codes = json.loads((ROOT / "schemas/fidelity/codes.json").read_text(encoding="utf-8"))["codes"]
    for rule, (_, field, _, _, shown) in zip(flat, rows, strict=True):
        named = re.findall(r"`(\w+)`", shown)
        assert all(codes[code]["kind"] == "gap" for code in named)
        assert not isinstance(rule.code, str) or named == [rule.code]
        assert not isinstance(rule, Rule) or field == f"`{rule.field}`"
    gaps = {code for code, entry in codes.items() if entry["kind"] == "gap"}
    assert {code for *_, shown in rows for code in re.findall(r"`(\w+)`", shown)} == gaps


def test_the_table_of_kinds_is_the_code_s() -> None:
    shown = [
        (cells[0].strip("`"), cells[1].strip("`–") or None) for cells in _rows("concepts/state-writes.md", "## Kinds")
    ]
    assert shown == [(kind.name, kind.payload) for kind in KINDS.values()]


def test_the_table_of_subjects_is_the_folder_s() -> None:
    ids = load_ids()
    shown = [(cells[0].strip("`"), int(cells[2])) for cells in _rows("schemas.md", "# Schemas")]
    assert shown == [(subject, ids[subject][1].id) for subject in SUBJECTS]


LIMITS: dict[str, list[tuple[str, float]]] = {
    "## A record": [
        ("a turn", TURN_LIMITS.record_bytes),
        ("a state write", Limits().record_bytes),
        ("serde.collection_items", Limits().collection_items),
        ("serde.record_items", Limits().record_items),
        ("turn_id", validation.MAX_ID),
        ("user_key", validation.MAX_USER_KEY),
        ("`text` of a message", validation.MAX_CONTENT_TEXT),
        ("content.memories", validation.MAX_MEMORIES),
        ("content.events", validation.MAX_EVENTS),
        ("other texts", validation.MAX_TEXT),
    ],
    "## A fingerprint": [
        ("a text", fingerprint.MAX_TEXT),
        ("keys of `state_counts`", fingerprint.MAX_PIECES),
        ("a key of", fingerprint.MAX_PIECE_NAME),
        ("caps.count", Policy().caps.count),
        ("caps.depth", Policy().caps.depth),
    ],
    "## A manifest": [
        ("artifact's `value`", jsontext.MAX_VALUE_NESTING),
        ("any JSON text", jsontext.MAX_TEXT_NESTING),
    ],
    "## A writer's schema": [
        ("its JSON", Limits().schema_bytes),
        ("nesting", Limits().schema_depth),
        ("values its types describe", Limits().schema_nodes),
        ("serde.schema_ids", Limits().schema_ids),
        ("wait for an id", resolver.GRACE_S),
        ("not asked for again", resolver.NEGATIVE_S),
    ],
    "## A verdict": [
        ("missing_evidence", verdict.MAX_GAPS),
        ("manifest_issues", verdict.MAX_ISSUES),
        ("findings", verdict.MAX_FINDINGS),
        ("a field or path", verdict.MAX_FIELD_CHARACTERS),
        ("manifest_id", verdict.MAX_ID_CHARACTERS),
    ],
    "## A worker": [
        ("a batch", TransportOptions().max_records),
        ("worker.max_batch_bytes", TransportOptions().max_batch_bytes),
        ("worker.max_in_flight", TransportOptions().max_in_flight),
        ("worker.max_bytes_in_flight", TransportOptions().max_bytes_in_flight),
        ("worker.duplicate_window", DEFAULT_WINDOW),
        ("tombstone finds", KNOWN_TURNS),
        ("producing paths", paths.MAX_PATHS),
        ("letters for faults", OURS_IN_A_ROW),
        ("does not tick", TICK_LIMIT),
        ("does not move", STALL_LIMIT),
    ],
}


@pytest.mark.parametrize("heading", LIMITS)
def test_the_table_of_limits_states_the_code_s_numbers(heading: str) -> None:
    rows = _rows("limits.md", heading)
    for words, limit in LIMITS[heading]:
        numbers = [
            number.replace(",", "")
            for what, value, *_ in rows
            if words in what
            for number in re.findall(r"\d[\d,]*\d|\d", value)
        ]
        assert f"{limit:.0f}" in numbers, (words, limit, numbers)


def test_the_readers_of_fixed_numbers_agree_with_the_table_of_limits() -> None:
    pages = {
        name: (DOCS / name).read_text(encoding="utf-8") for name in ("delivery-guarantees.md", "producer-guide.md")
    }
    assert f"{DEFAULT_WINDOW:,} offsets" in pages["delivery-guarantees.md"]
    assert f"{KNOWN_TURNS:,} turns" in pages["producer-guide.md"]
    assert f"{TURN_LIMITS.record_bytes:,} bytes" in pages["producer-guide.md"]
