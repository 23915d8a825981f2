"""Settings: which source wins, what is refused, and that secrets stay secret."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from metajournal.config import MASK, Loaded, load, load_settings
from metajournal.producers.actor import actor_of
from metajournal.schemas.errors import ConfigError
from metajournal.schemas.settings import Settings


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Reads settings with a home, a working folder and an environment of this test's own."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()

    def reading(
        arguments: Mapping[str, Any] | None = None, file: str = "", stack: str = "", **environment: str
    ) -> Loaded:
        (tmp_path / "work" / "metajournal.toml").write_text(file, "utf-8")
        (tmp_path / "home" / "metajournal.toml").write_text(stack, "utf-8")
        environment = {"METAJOURNAL_HOME": str(tmp_path / "home"), **environment}
        return load_settings(arguments, environ=environment, folder=tmp_path / "work")

    return reading


def test_without_any_source_every_value_is_the_default(tmp_path: Path) -> None:
    loaded = load_settings(environ={"METAJOURNAL_HOME": str(tmp_path)}, folder=tmp_path)
    assert loaded.settings == Settings()
    assert {line.origin for line in loaded.shown() if line.key != "journal.actor"} == {"default"}
    [actor] = [line for line in loaded.shown() if line.key == "journal.actor"]
    assert (actor.value, actor.origin) == (pwd.getpwuid(os.geteuid()).pw_name, "operating system")


def test_the_stronger_source_wins_one_by_one(read: Any) -> None:
    """Arguments over environment over the file over the running stack's file over defaults."""
    said = {"stack": "[client]\nqueue_events = 1\n", "file": "[client]\nqueue_events = 2\n"}
    in_environment = {"METAJOURNAL__CLIENT__QUEUE_EVENTS": "3"}
    argument = {"client.queue_events": 4}
    steps = [
        (read(), 100_000, "default"),
        (read(stack=said["stack"]), 1, "home/metajournal.toml"),
        (read(**said), 2, "work/metajournal.toml"),
        (read(**said, **in_environment), 3, "environment METAJOURNAL__CLIENT__QUEUE_EVENTS"),
        (read(argument, **said, **in_environment), 4, "argument"),
    ]
    for loaded, value, origin in steps:
        assert loaded.settings.client.queue_events == value
        assert loaded.origins.get("client.queue_events", "default").endswith(origin)


def test_a_named_file_takes_the_place_of_the_one_in_the_working_folder(read: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[journal]\nprefix = 'other'\n", "utf-8")
    loaded = read(file="[journal]\nprefix = 'here'\nactor = 'alice'\n", METAJOURNAL_CONFIG=str(other))
    assert (loaded.settings.journal.prefix, loaded.settings.journal.actor) == ("other", None)


def test_a_named_file_that_is_missing_is_an_error(read: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="METAJOURNAL_CONFIG names"):
        read(METAJOURNAL_CONFIG=str(tmp_path / "missing.toml"))


@pytest.mark.parametrize(
    ("file", "environment"),
    [
        ('[kafka]\n"bootstrap.servers" = "a:1"\n"socket.keepalive.enable" = true\n', {}),
        ('[kafka]\nbootstrap.servers = "a:1"\nsocket.keepalive.enable = true\n', {}),
        ("", {"METAJOURNAL__KAFKA__BOOTSTRAP_SERVERS": "a:1", "METAJOURNAL__KAFKA__SOCKET_KEEPALIVE_ENABLE": "true"}),
    ],
)
def test_dotted_kafka_keys_can_be_said_in_every_source(read: Any, file: str, environment: dict[str, str]) -> None:
    expected = {"bootstrap.servers": "a:1", "socket.keepalive.enable": "true"}
    assert read(file=file, **environment).settings.kafka == expected


def test_options_of_the_object_store_keep_their_spelling(read: Any) -> None:
    loaded = read(file='[lake.storage_options]\nAWS_REGION = "eu"\n', METAJOURNAL__LAKE__STORAGE_OPTIONS__AWS_X="1")
    assert loaded.settings.lake.storage_options == {"AWS_REGION": "eu", "AWS_X": "1"}


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"client.queue_event": 1}, "client.queue_events"),
        ({"clients.queue_events": 1}, "client.queue_events"),
        ({"journal": {"prefx": "a"}}, "journal.prefix"),
        ({"elasticsearch.uri": "a"}, "elasticsearch.url"),
        ({"client": 1}, "client."),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(
    read: Any, arguments: dict[str, Any], meant: str
) -> None:
    with pytest.raises(ConfigError, match="There is no setting") as caught:
        read(arguments)
    assert f"Did you mean {meant}" in caught.value.hint


def test_an_unknown_variable_is_refused_by_its_name(read: Any) -> None:
    with pytest.raises(ConfigError, match="METAJOURNAL__JOURNAL__PREFIXX") as caught:
        read(METAJOURNAL__JOURNAL__PREFIXX="a")
    assert caught.value.hint == "Did you mean journal.prefix?"


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        ({"client.queue_events": "many"}, "a whole number"),
        ({"client.queue_events": 1.5}, "a whole number"),
        ({"client.queue_events": True}, "a whole number"),
        ({"client.queue_events": 0}, "at least 1"),
        ({"client.linger_ms": -1}, "at least 0"),
        ({"journal.prefix": 7}, "text"),
        ({"journal.prefix": "a b"}, "a prefix of topic names"),
        ({"journal.tenant": "Upper"}, "a name that matches"),
        ({"kafka.bootstrap.servers": ["a"]}, "text"),
    ],
)
def test_a_wrong_type_is_refused_with_the_name_of_its_key(read: Any, arguments: dict[str, Any], needed: str) -> None:
    with pytest.raises(ConfigError, match=needed) as caught:
        read(arguments)
    assert next(iter(arguments)) in caught.value.message


def test_a_file_that_is_no_toml_is_named(read: Any) -> None:
    with pytest.raises(ConfigError, match=r"metajournal\.toml cannot be read"):
        read(file="[journal\n")


def test_an_empty_variable_means_none_where_a_key_may_be_none(read: Any) -> None:
    named = "[journal]\nchanges_topic = 'mine'\n"
    assert read(file=named, METAJOURNAL__JOURNAL__CHANGES_TOPIC="").settings.journal.changes_topic is None


@pytest.mark.parametrize("nobody", [{"journal": {"actor": None}}, {"journal.actor": ""}])
def test_who_says_that_nobody_emits_does_not_get_the_systems_user(read: Any, nobody: dict[str, Any]) -> None:
    for loaded in (
        read(nobody, file="[journal]\nactor = 'alice'\n"), read(METAJOURNAL__JOURNAL__ACTOR=""), read(nobody),
    ):  # fmt: skip
        assert actor_of(loaded.settings) is None
        [shown] = [line for line in loaded.shown() if line.key == "journal.actor"]
        assert shown.value == ""
        assert shown.origin != "operating system"
    assert actor_of(read().settings) == pwd.getpwuid(os.geteuid()).pw_name


def test_a_secret_is_read_from_its_file_and_never_shown(read: Any, tmp_path: Path) -> None:
    secret, file = tmp_path / "key", tmp_path / "named.toml"
    secret.write_text("s3cret\n", "utf-8")
    file.write_text(f'[kafka]\nsasl.password.file = "{secret}"\n', "utf-8")
    loaded = read(
        METAJOURNAL_CONFIG=str(file),
        METAJOURNAL__ELASTICSEARCH__API_KEY_FILE=str(secret),
        METAJOURNAL__ELASTICSEARCH__URL="https://user:s3cret@host:9200",
    )
    assert loaded.settings.elasticsearch.api_key == "s3cret"
    assert loaded.settings.kafka["sasl.password"] == "s3cret"
    lines = {line.key: line for line in loaded.shown()}
    assert "s3cret" not in "".join(line.value for line in lines.values())
    assert lines["kafka.sasl.password"].value == lines["elasticsearch.api_key"].value == MASK
    assert lines["elasticsearch.url"].value == f"https://{MASK}@host:9200"
    assert str(secret) in lines["elasticsearch.api_key"].origin


def test_a_wrong_secret_is_not_shown_in_its_error(read: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        read({"elasticsearch.api_key": 12345})
    assert "12345" not in caught.value.message


def test_a_secret_file_that_is_missing_is_named(read: Any) -> None:
    with pytest.raises(ConfigError, match=r"elasticsearch\.api_key_file"):
        read(METAJOURNAL__ELASTICSEARCH__API_KEY_FILE="/nowhere/key")


def test_the_command_line_assigns_keys_and_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAJOURNAL_HOME", str(tmp_path))
    file = tmp_path / "mine.toml"
    file.write_text("[client]\nqueue_events = 7\n", "utf-8")
    loaded = load(str(file), ["client.linger_ms=2.5", "kafka.bootstrap.servers=a:1"])
    assert (loaded.settings.client.queue_events, loaded.settings.client.linger_ms) == (7, 2.5)
    assert loaded.settings.kafka["bootstrap.servers"] == "a:1"
    with pytest.raises(ConfigError, match="sets nothing"):
        load(None, ["client.linger_ms"])


def test_folders_in_a_file_begin_at_the_file(read: Any, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    file = tmp_path / "far" / "own.toml"
    file.write_text('[stack]\nhome = "."\n[lake]\npath = "tables/lake"\n')
    found = read(METAJOURNAL_CONFIG=str(file)).settings
    assert (found.stack.home, found.lake.path) == (str(tmp_path / "far"), str(tmp_path / "far" / "tables" / "lake"))
    for path in ("/at/the/root", "s3://bucket/lake", "~/lake"):
        file.write_text(f'[lake]\npath = "{path}"\n')
        assert read(METAJOURNAL_CONFIG=str(file)).settings.lake.path == path


def test_no_number_is_not_a_number_of_seconds(read: Any) -> None:
    with pytest.raises(ConfigError, match="a number of at least 0"):
        read(METAJOURNAL__CLIENT__OUTCOME_TIMEOUT_S="nan")


def test_a_home_of_an_impossible_name_is_said(read: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read(METAJOURNAL_HOME="/" + "x" * 300)


HARMFUL = [
    ("kafka", "sasl.kerberos.kinit.cmd", "touch /tmp/x"),
    ("kafka", "sasl.kerberos.principal", "alice; touch /tmp/x"),  # librdkafka puts it into a shell's command line
    ("kafka", "sasl.kerberos.keytab", '"; touch /tmp/x; "'),
    ("kafka", "plugin.library.paths", "/tmp/evil.so"),
    ("kafka", "PLUGIN.library.paths", "/tmp/evil.so"),
    ("kafka", "ssl.engine.location", "/tmp/evil.so"),
    ("kafka", "ssl.providers", "/tmp/evil"),
    ("kafka", "sasl.oauthbearer.assertion.file", "/home/alice/.ssh/id_rsa"),
    ("kafka", "sasl.oauthbearer.assertion.jwt.template.file", "/home/alice/.config"),
    ("kafka", "sasl.oauthbearer.metadata.authentication.type", "azure_imds"),
    ("kafka", "offset.store.path", "/home/alice/.bashrc"),
    ("kafka", "sasl.password.file", "/home/alice/.ssh/id_rsa"),
    ("kafka", "some.later.key", "x"),
    ("elasticsearch", "api_key_file", "/home/alice/.ssh/id_rsa"),
    ("lake.storage_options", "AWS_PROFILE", "prod"),
    ("lake.storage_options", "aws_web_identity_token_file", "/home/alice/token"),
    ("lake.storage_options", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1/"),
    ("lake.storage_options", "azure_use_azure_cli", "true"),
    ("lake.storage_options", "azure_federated_token_file", "/home/alice/token"),
    ("lake.storage_options", "azure_msi_endpoint", "http://127.0.0.1/"),
    ("lake.storage_options", "google_application_credentials", "/home/alice/gcs.json"),
    ("lake.storage_options", "google_service_account", "/home/alice/gcs.json"),
    ("stream.spark", "spark.driver.extraJavaOptions", "-XX:OnOutOfMemoryError=true"),
    ("stream.spark", "spark.jars", "/tmp/evil.jar"),
    ("stream.spark", "spark.pyspark.python", "/tmp/evil"),
    ("stream", "master", "spark://evil:7077"),
    ("gateway", "host", "0.0.0.0"),
    ("gateway", "operator", "10.0.0.5:8081"),
    ("gateway", "user_header", "X-User"),
]


@pytest.mark.parametrize(("section", "key", "value"), HARMFUL)
def test_what_may_run_a_program_counts_only_where_somebody_named_it(
    read: Any, tmp_path: Path, section: str, key: str, value: str
) -> None:
    text = f"[{section}]\n'{key}' = '{value}'\n"
    with pytest.raises(ConfigError, match="was found in the working folder but not named") as caught:
        read(file=text)
    assert f"{section}.{key}" in caught.value.message
    assert "--config metajournal.toml" in caught.value.hint
    assert value not in str(caught.value) + caught.value.hint or value == "x"
    if not key.endswith("file"):
        other = tmp_path / "named.toml"
        other.write_text(text, "utf-8")
        assert read(METAJOURNAL_CONFIG=str(other)).origins[f"{section}.{key}"] == f"file {other}"
        assert read({f"{section}.{key}": value}).origins[f"{section}.{key}"] == "argument"
        assert read(stack=text).origins[f"{section}.{key}"].endswith("home/metajournal.toml")


@pytest.mark.parametrize(("section", "key", "value"), HARMFUL)
def test_what_may_run_a_program_counts_from_the_command_lines_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, section: str, key: str, value: str
) -> None:
    monkeypatch.setenv("METAJOURNAL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    told = str(tmp_path / "key") if key in ("sasl.password.file", "api_key_file") else value
    (tmp_path / "key").write_text("k")
    Path("metajournal.toml").write_text(f"[{section}]\n'{key}' = '{told}'\n", "utf-8")
    with pytest.raises(ConfigError):
        load(None)
    assert load("metajournal.toml").settings != Settings()


def test_secrets_and_harmless_keys_may_stand_in_a_file_that_was_found(read: Any) -> None:
    loaded = read(
        file="[kafka]\nsasl.password = 'hunter22'\nssl.ca.location = '/ca'\n[elasticsearch]\napi_key = 'hunter22'\n"
        "[lake.storage_options]\nAZURE_STORAGE_SAS_KEY = 'hunter22'\naws_secret_access_key = 'hunter22'\n"
        "region = 'eu'\n[stream]\nmaster = 'local[2]'\nspark = {'spark.executor.memory' = '1g'}\n"
    )
    assert loaded.settings.kafka["sasl.password"] == loaded.settings.elasticsearch.api_key == "hunter22"
    assert loaded.settings.stream.spark == {"spark.executor.memory": "1g"}
    assert "hunter22" not in repr(loaded)


def test_a_file_that_was_found_names_addresses_of_this_machine_for_the_gateway(read: Any) -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        loaded = read(file=f"[gateway]\nhost = '{host}'\noperator = '127.0.0.1:8091'\nport = 9000\n")
        assert loaded.settings.gateway.host == host
    assert read(file="[gateway]\noperator = ''\n").settings.gateway.operator == ""
    for proxies in ("['10.0.0.7']", "'10.0.0.7'"):
        with pytest.raises(ConfigError, match="not named explicitly"):
            read(file=f"[gateway]\ntrusted_proxies = {proxies}\n")


PLACES = [
    ("elasticsearch.url", "https://search:9200", "elasticsearch.api_key"),
    ("elasticsearch.ca", "/ca.pem", "elasticsearch.api_key"),
    ("kafka.bootstrap.servers", "broker:9093", "kafka.sasl.password"),
    ("kafka.security.protocol", "SASL_PLAINTEXT", "kafka.sasl.password"),
    ("kafka.sasl.mechanism", "PLAIN", "kafka.sasl.password"),
    ("kafka.sasl.oauthbearer.token.endpoint.url", "http://evil/", "kafka.sasl.oauthbearer.client.secret"),
]


@pytest.mark.parametrize(("place", "value", "secret"), PLACES)
def test_a_file_that_was_found_does_not_say_where_a_secret_from_elsewhere_goes(
    read: Any, tmp_path: Path, place: str, value: str, secret: str
) -> None:
    section, _, key = place.partition(".")
    text = f"[{section}]\n'{key}' = '{value}'\n"
    variable = "METAJOURNAL__" + section.upper() + "__" + secret.partition(".")[2].replace(".", "_").upper()
    for read_both in (partial(read, **{variable: "hunter22"}), partial(read, {secret: "hunter22"})):
        with pytest.raises(ConfigError, match="it would decide where") as caught:
            read_both(file=text)
        assert place in caught.value.message
        assert secret in caught.value.message
        assert "--config metajournal.toml" in caught.value.hint
        assert "hunter22" not in str(caught.value) + caught.value.hint
        other = tmp_path / "named.toml"
        other.write_text(text, "utf-8")
        assert read_both(METAJOURNAL_CONFIG=str(other)).origins[place] == f"file {other}"
    assert read(file=text).origins[place].startswith("file"), "no secret, nothing to send"
    own = f"{text}'{secret.partition('.')[2]}' = 'hunter22'\n"
    assert read(file=own).origins[secret].startswith("file"), "a file may say where its own secret goes"
    elsewhere = read({place: value}, file=text, **{variable: "hunter22"})
    assert elsewhere.origins[place] == "argument"


@pytest.mark.parametrize("name", ["aws_web_identity_token_file", "AZURE_FEDERATED_TOKEN_FILE"])
def test_an_option_that_wants_a_files_name_itself_gets_it(read: Any, name: str) -> None:
    assert read({f"lake.storage_options.{name}": "/run/token"}).settings.lake.storage_options == {name: "/run/token"}


@pytest.mark.parametrize("given", ["kafka.sasl.password:hunter22", "kafka.sasl.password hunter22"])
def test_a_secret_that_was_assigned_without_a_sign_is_not_repeated(given: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, [given])
    assert "hunter22" not in str(caught.value) + str(caught.value.data)
    assert "kafka.sasl.password" in caught.value.message


def test_custom_kinds_are_a_list_in_a_file_and_separated_by_commas_elsewhere(read: Any) -> None:
    in_file = read(file='[journal]\ncustom_kinds = ["team", "ml-model"]\n')
    in_environment = read(METAJOURNAL__JOURNAL__CUSTOM_KINDS="team, ml-model")
    argument = read({"journal.custom_kinds": "team,ml-model"})
    listed = read({"journal": {"custom_kinds": ["team", "ml-model"]}})
    for loaded in (in_file, in_environment, argument, listed):
        assert loaded.settings.journal.custom_kinds == ("team", "ml-model")
        assert next(line.value for line in loaded.shown() if line.key == "journal.custom_kinds") == "team, ml-model"
    assert read(METAJOURNAL__JOURNAL__CUSTOM_KINDS="").settings.journal.custom_kinds == ()
    for wrong in ('"team"', "[1]", '["Team"]', '["a b"]'):
        with pytest.raises(ConfigError, match=r"journal\.custom_kinds must be"):
            read(file=f"[journal]\ncustom_kinds = {wrong}\n")


@pytest.mark.parametrize("key", ["gateway.port", "stream.metrics_port"])
def test_a_port_that_is_none_is_refused(read: Any, key: str) -> None:
    section, _, name = key.partition(".")
    with pytest.raises(ConfigError, match="a port, at most 65535"):
        read(**{f"METAJOURNAL__{section.upper()}__{name.upper()}": "65536"})


def test_a_name_of_the_server_with_a_port_is_refused(read: Any) -> None:
    with pytest.raises(ConfigError, match="without a port"):
        read(METAJOURNAL__GATEWAY__HOSTS="catalog.example.org:8080")
    named = read(METAJOURNAL__GATEWAY__HOSTS="Catalog.Example.org, [::1]").settings.gateway.hosts
    assert named == ("Catalog.Example.org", "[::1]")


def test_rights_that_nobody_has_heard_of_cannot_be_told_to_hold_forever(read: Any) -> None:
    with pytest.raises(ConfigError, match="a finite number"):
        read(METAJOURNAL__GATEWAY__ACCESS_STALE_S="inf")


@pytest.mark.parametrize("how", ["folder", "loop"])
def test_what_is_called_like_a_settings_file_and_is_none_is_refused(tmp_path: Path, how: str) -> None:
    named = tmp_path / "metajournal.toml"
    named.mkdir() if how == "folder" else named.symlink_to(named)
    for folder, home in ((tmp_path, tmp_path / "home"), (tmp_path / "work", tmp_path)):
        with pytest.raises(ConfigError, match="is not a file that can be read"):
            load_settings(environ={"METAJOURNAL_HOME": str(home)}, folder=folder)
