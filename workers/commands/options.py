"""Options that commands share: where the settings come from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from workers.config import load_settings

config_option: Final = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file, TOML; else the one ENGRAM_CONFIG names.",
)
bootstrap_option: Final = click.option(
    "--bootstrap-servers", metavar="HOST:PORT,…", help="Brokers; overrides kafka.bootstrap_servers."
)


def settings_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--config`` and ``--bootstrap-servers``, and call it with the loaded ``settings``.

    Wrong settings raise ConfigurationError, which the command line turns into a line on stderr and exit code 2.
    """

    @config_option
    @bootstrap_option
    @functools.wraps(function)
    def with_settings(
        *args: object, config_path: Path | None, bootstrap_servers: str | None, **kwargs: object
    ) -> object:
        settings = load_settings(config_path, {"kafka.bootstrap_servers": bootstrap_servers})
        return function(*args, settings=settings, **kwargs)

    return with_settings
