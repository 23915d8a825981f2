"""Which settings are shown: only those that are known to hold no secret, and they without a login."""

from __future__ import annotations

import json
import re

import pytest
from confluent_kafka import KafkaException, Producer
from hypothesis import assume, example, given
from hypothesis import strategies as st

from metajournal.schemas import setting_keys
from metajournal.schemas.setting_keys import (
    KAFKA_PLAIN,
    KAFKA_SECRET,
    MASK,
    hidden_texts,
    is_harmless,
    is_plain,
    pairs,
    scrubbed,
    url_shown,
    value_shown,
)
from metajournal.schemas.settings import ElasticsearchSettings, LakeSettings, Settings, StreamSettings

NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="._-"), min_size=1, max_size=30)
SECRETS = st.from_regex(r"[A-Za-z0-9!?/+=@:\"\\ -]{6,30}", fullmatch=True).map(lambda text: f"Qx{text}xQ")


@pytest.mark.parametrize("path", [path for path, _ in pairs(Settings()) if not path.startswith("kafka.")])
def test_every_key_of_our_own_but_the_api_key_holds_no_secret(path: str) -> None:
    assert is_plain(path) == (path != "elasticsearch.api_key")


@pytest.mark.parametrize(
    "path",
    [
        "kafka.ssl.key.password", "kafka.sasl.kerberos.kinit.cmd", "kafka.sasl.oauthbearer.config", "kafka.ssl.key.pem",
        "lake.storage_options.AZURE_STORAGE_SAS_KEY", "lake.storage_options.sas_token", "elasticsearch.api_key",
        "stream.spark.spark.hadoop.fs.s3a.secret.key", "lake.storage_options", "stream.spark", "no.such", "kafka",
    ],
)  # fmt: skip
def test_what_may_be_a_secret_is_masked(path: str) -> None:
    assert value_shown(path, "hunter22") == MASK


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("kafka.sasl.username", "alice"), ("kafka.bootstrap.servers", "a:1,b:2"), ("kafka.SSL.ca.location", "/ca.pem"),
        ("lake.storage_options.AWS_REGION", "eu"), ("lake.storage_options.azure_storage_account_name", "a"),
        ("stream.spark.spark.executor.memory", "4g"), ("elasticsearch.url", "http://a:9200"), ("journal.actor", "a@b"),
        ("lake.path", "/data/what?/@home"),
    ],
)  # fmt: skip
def test_what_is_known_to_be_no_secret_is_shown(path: str, value: str) -> None:
    assert value_shown(path, value) == value
    assert is_harmless(path, value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h:9200/a", f"https://{MASK}@h:9200/a"),
        ("https://u:p/a@s@h:9200", f"https://{MASK}@h:9200"),
        ("https://h/?api_key=s@x", f"https://{MASK}"),
        ("https://u:p?s@h", f"https://{MASK}"),
        ("https://h/c?sv=1&sig=s", f"https://h/c?{MASK}"),
        ("u:p@h:9092,i:9092", f"{MASK}@h:9092,i:9092"),
        ("a:9092,u:p@h:9092", f"{MASK}@h:9092"),
        ("u:p://s@h:9092", f"{MASK}@h:9092"),
        ("SASL_SSL://u:p@h:9092", f"SASL_SSL://{MASK}@h:9092"),
        ("127.0.0.1:9092", "127.0.0.1:9092"),
    ],
)
def test_a_login_in_an_address_is_masked(url: str, shown: str) -> None:
    assert url_shown(url) == shown


@given(st.text(min_size=1), st.text(), st.sampled_from(["", "https://"]))
@example("p?s", "h", "https://")
def test_no_login_is_ever_part_of_an_address_that_is_shown(password: str, place: str, scheme: str) -> None:
    marked = f"Qx{password}xQ"
    assert marked not in url_shown(f"{scheme}user:{marked}@{place}")
    assert "user:Qx" not in url_shown(f"{scheme}user:{marked}@{place}")


def known_to_librdkafka(key: str) -> bool:
    try:
        Producer({key: "\x01"})
    except KafkaException as error:
        return "No such configuration property" not in error.args[0].str()
    except TypeError as error:
        return "bool" in str(error)  # the Python client's own keys
    return True


@pytest.mark.parametrize("key", sorted(KAFKA_PLAIN | KAFKA_SECRET))
def test_the_lists_name_only_keys_that_librdkafka_has(key: str) -> None:
    assert known_to_librdkafka(key)


def test_no_listed_key_names_a_command_a_library_a_login_file_or_where_to_write() -> None:
    telling = re.compile(
        r"cmd|command|execute|plugin|engine|provider|\bfile\b|_file|keytab|principal|store\.path|_cb$|profile|cli$"
    )
    listed = [name for name in dir(setting_keys) if name.endswith(("_PLAIN", "_SECRET"))]
    assert len(listed) == 5
    telling_keys = {key for name in listed for key in getattr(setting_keys, name) if telling.search(key)}
    assert telling_keys == {"s3_locking_provider"}  # the word "dynamodb"


def settings_of(kafka: dict[str, str], options: dict[str, str], spark: dict[str, str], api_key: str) -> Settings:
    return Settings(
        kafka={"bootstrap.servers": "a:1", **kafka},
        lake=LakeSettings(storage_options=options),
        stream=StreamSettings(spark=spark),
        elasticsearch=ElasticsearchSettings(api_key=api_key),
    )


@given(NAMES, st.sampled_from(["kafka.", "lake.storage_options.", "stream.spark."]), SECRETS)
def test_no_value_of_an_unknown_key_is_shown_or_survives_in_a_librarys_words(
    name: str, section: str, value: str
) -> None:
    assume(not is_plain(section + name))
    sections: list[dict[str, str]] = [
        {name: value} if section.startswith(start) else {} for start in ("kafka", "lake", "str")
    ]
    settings = settings_of(sections[0], sections[1], sections[2], value)
    shown = {path: value_shown(path, value) for path, value in pairs(settings)}
    assert shown[section + name] == shown["elasticsearch.api_key"] == MASK
    assert value not in "".join(shown.values()) + repr(settings)
    for text in (f"refused {value}!", f"refused {value!r}", json.dumps({"a": value})):
        assert value not in scrubbed(text, hidden_texts(settings))
        assert MASK in scrubbed(text, hidden_texts(settings))


@pytest.mark.parametrize("harmless", ["true", "9092", "1", ""])
def test_a_short_value_or_a_number_does_not_mask_half_a_sentence(harmless: str) -> None:
    settings = settings_of({"some.later.key": harmless}, {}, {}, harmless)
    text = "No Kafka broker answers at 127.0.0.1:9092 within 1 s, true."
    assert scrubbed(text, hidden_texts(settings)) == text


def test_a_library_that_quotes_the_rest_of_a_text_shows_no_word_of_it() -> None:
    settings = settings_of({"sasl.oauthbearer.config": "principal=alice secretToken=hunter22"}, {}, {}, "")
    text = "Unrecognized sasl.oauthbearer.config beginning at: secretToken=hunter22"
    assert "hunter22" not in scrubbed(text, hidden_texts(settings))
