"""The reference page of the configuration: every key, from the settings' classes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from metajournal.config import is_secret
from metajournal.producers.kafka import CONSUMER_SAFETY, PRODUCER_SAFETY
from metajournal.schemas.settings import Settings
from metajournal.streaming.spark.options import JAVA_SECURITY
from metajournal.terminal.settings_file import field_docs

from .markdown import first, prose, table


def configuration_page() -> list[str]:
    """The lines of the page."""
    lines = [
        "# Configuration",
        "",
        *prose(
            "If a key is set more than once, the first of these takes precedence: an argument",
            "(`Journal.connect(client={...})`, or `metajournal --set SECTION.KEY=VALUE COMMAND`), the",
            "environment (`METAJOURNAL__SECTION__KEY`), the file that `--config` or `METAJOURNAL_CONFIG`",
            "names or else `metajournal.toml` in the working folder, the file that `metajournal up` wrote in",
            "its home (`METAJOURNAL_HOME`, `~/.metajournal`), the default.",
            "Unknown keys are refused.",
            "`metajournal config show --origin` says where each value comes from.",
            "A secret can also be given by the name of a file that contains it, with `_file` (in `[kafka]`:",
            "`.file`) appended to its key. Only values of keys that are known not to hold a secret are shown.",
            "A `metajournal.toml` that was only found in the working folder may not set what could run a program, load",
            "code or send a file's content: see [which files may say",
            "what](../how-to/secure-connections.md#which-files-may-set-what).",
        ),
    ]
    for section in dataclasses.fields(Settings):
        section_value = getattr(Settings(), section.name)
        if dataclasses.is_dataclass(section_value):
            lines += [f"## [{section.name}]", "", first(type(section_value).__doc__), ""]
            lines += table(["key", "type", "default", "environment", "meaning"], _keys(section.name, section_value))
    return lines + _kafka_keys()


def _keys(section: str, section_value: Any) -> Iterator[tuple[object, ...]]:
    hints = get_type_hints(type(section_value))
    meanings = field_docs(type(section_value))
    for key in dataclasses.fields(section_value):
        default = getattr(section_value, key.name)
        variable = f"METAJOURNAL__{section.upper()}__{key.name.upper()}"
        secret = " Secret." if is_secret(f"{section}.{key.name}") and "ecret" not in meanings.get(key.name, "") else ""
        shown = "" if default is None or isinstance(default, Mapping) else f"`{json.dumps(default)}`"
        variable += "__NAME" if isinstance(default, Mapping) else ""
        yield f"`{key.name}`", _type(hints[key.name]), shown, f"`{variable}`", meanings.get(key.name, "") + secret


def _type(hint: Any) -> str:
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    if hint in names:
        return names[hint]
    text = str(hint)
    if text.startswith("tuple"):
        return "list of texts; in the environment separated by commas"
    if "Mapping" in text:
        return "names and texts"
    return "text" if "str" in text else text.replace(" | None", "")


def _kafka_keys() -> list[str]:
    fixed = sorted({**CONSUMER_SAFETY, **PRODUCER_SAFETY}.items())
    return [
        "## [kafka]",
        "",
        *prose(
            "librdkafka's own dotted keys, passed to every client:",
            "`bootstrap.servers` (default `127.0.0.1:9092`), `security.protocol`, `sasl.mechanism`,",
            "`sasl.username`, `sasl.password`, `ssl.ca.location` and all others.",
            "In the environment, write an underscore for each dot:",
            "`METAJOURNAL__KAFKA__BOOTSTRAP_SERVERS`.",
        ),
        "These are fixed, since the journal's promises rest on them; another value is refused:",
        "",
        *table(["key", "value"], ((f"`{key}`", f"`{value}`") for key, value in fixed)),
        *prose(
            "These are translated for Spark's Java client; `sasl.username` and `sasl.password` become its JAAS",
            "entry, a client's certificate and key (`.location` or `.pem`, the key in PKCS 8) its PEM key store.",
            "Any other `ssl.` or `sasl.` key stops the stream with an error: Spark would connect differently from",
            "all other clients.",
        ),
        *table(["librdkafka", "Java"], ((f"`{key}`", f"`{java}`") for key, java in JAVA_SECURITY.items())),
    ]
