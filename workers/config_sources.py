"""Where settings are read from: flags, environment, file; with the origin of each value and errors that explain."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import ValidationError

ENV_PREFIX: Final = "ENGRAM_"
NESTED: Final = "__"
CONFIG_VARIABLE: Final = "ENGRAM_CONFIG"
BOOTSTRAP_ALIAS: Final = "KAFKA_BOOTSTRAP_SERVERS"
BOOTSTRAP_KEY: Final = "kafka.bootstrap_servers"

# Kubernetes hands every pod such variables for each service; one called engram-... is not a mistyped setting.
_SERVICE_LINK: Final = re.compile(r"(?!.*__).*(_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT(_\d+_[A-Z]+(_\w+)?)?)")


class Origin(NamedTuple):
    """Where a value came from; ``name`` is the flag, the variable or the file."""

    kind: Literal["flag", "environment", "file", "default"]
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class Layer(NamedTuple):
    """What one source says: values and origins by ``section.name``, and what is wrong in it."""

    values: dict[str, Any]
    origins: dict[str, Origin]
    problems: list[str]


def variable_of(key: str) -> str:
    """Return the environment variable of ``section.name``."""
    return ENV_PREFIX + key.replace(".", NESTED).upper()


def nest(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return values by ``section.name`` as one dictionary per section."""
    nested: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        nested.setdefault(section, {})[name] = value
    return nested


def _hint(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else "Remove it; `engram-stream check-config` lists every key."


def flag_layer(overrides: Mapping[str, object], keys: Sequence[str]) -> Layer:
    """Return the flags that were given (None is not given).

    Raises:
        KeyError: a key that no setting has: a mistake in our own command.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    if unknown := given.keys() - set(keys):
        raise KeyError(f"no such setting: {', '.join(sorted(unknown))}")
    origins = {key: Origin("flag", "--" + key.partition(".")[2].replace("_", "-")) for key in given}
    return Layer(given, origins, [])


def environment_layer(environ: Mapping[str, str], keys: Sequence[str]) -> Layer:
    """Return what ``ENGRAM_<SECTION>__<KEY>`` variables say; an empty one counts as not set.

    ``KAFKA_BOOTSTRAP_SERVERS`` stands for ``kafka.bootstrap_servers`` unless that has its own variable.
    """
    by_variable = {variable_of(key): key for key in keys}
    layer = Layer({}, {}, [])
    if alias := environ.get(BOOTSTRAP_ALIAS):
        layer.values[BOOTSTRAP_KEY] = alias
        layer.origins[BOOTSTRAP_KEY] = Origin("environment", BOOTSTRAP_ALIAS)
    for variable, value in environ.items():
        name = variable.upper()
        if not name.startswith(ENV_PREFIX) or name == CONFIG_VARIABLE or _SERVICE_LINK.fullmatch(name):
            continue
        key = by_variable.get(name)
        if key is None:
            layer.problems.append(f"{variable} (environment): no such setting. {_hint(name, list(by_variable))}")
        elif value:
            layer.values[key] = value
            layer.origins[key] = Origin("environment", variable)
    return layer


def file_layer(path: Path, keys: Sequence[str], is_secret: Callable[[str], bool]) -> Layer:
    """Return what the TOML file at ``path`` says; secrets in it are refused, they belong in a file of their own."""
    layer = Layer({}, {}, [])
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        layer.problems.append(f"{path}: cannot read the configuration file: {error.strerror}. Check --config.")
        return layer
    except UnicodeDecodeError:
        layer.problems.append(f"{path}: is not UTF-8. Save it as UTF-8.")
        return layer
    except tomllib.TOMLDecodeError as error:
        layer.problems.append(f"{path}: is not TOML: {error}. Correct it there.")
        return layer
    known_sections = list(dict.fromkeys(key.partition(".")[0] for key in keys))
    for section, table in document.items():
        if section not in known_sections:
            layer.problems.append(f"{section} (file {path}): no such section. {_hint(section, known_sections)}")
        elif not isinstance(table, dict):
            layer.problems.append(f"{section} (file {path}): is not a section. Write [{section}], then its keys.")
        else:
            _read_section(layer, path, section, table, keys, is_secret)
    return layer


def _read_section(
    layer: Layer,
    path: Path,
    section: str,
    table: Mapping[str, Any],
    keys: Sequence[str],
    is_secret: Callable[[str], bool],
) -> None:
    for name, value in table.items():
        key = f"{section}.{name}"
        if key not in keys:
            layer.problems.append(f"{key} (file {path}): no such setting. {_hint(key, keys)}")
        elif is_secret(key):
            layer.problems.append(
                f"{key} (file {path}): a secret does not belong here. "
                f"Set {key}_file to a file that holds it, or the variable {variable_of(key)}."
            )
        else:
            layer.values[key] = value
            layer.origins[key] = Origin("file", str(path))


def explain_value_errors(
    error: ValidationError,
    origins: Mapping[str, Origin],
    values: Mapping[str, Any],
    is_secret: Callable[[str], bool],
) -> list[str]:
    """Return one line per wrong value: its key, where it came from, what is wrong, what to do. Secrets stay unseen."""
    lines = []
    for item in error.errors(include_url=False):
        context = item.get("ctx", {})
        key = ".".join(str(part) for part in item["loc"][:2])
        if context.get("key"):
            key = f"{key}.{context['key']}"
        what = item["msg"]
        if item["type"] != "engram":
            quotable = key in values and not is_secret(key) and "://" not in str(values[key])
            shown = f"{str(values[key])[:60]!r} is refused: " if quotable else ""
            what = shown + what[:1].lower() + what[1:]
        fix = context.get("fix") or "Correct it, or remove it to use the default."
        lines.append(f"{key} ({origins.get(key, Origin('default'))}): {what}. {fix}")
    return lines
