"""The pytest plugin."""

import pytest

pytest_plugins = ["pytester"]

RUN_S = 120.0


def _run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", *words, timeout=RUN_S)


def test_fixture_needs_no_import(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        ports = set()

        def test_one(kafka):
            kafka.create_topic("orders")
            ports.add(kafka.bootstrap_servers)

        def test_every_test_has_its_own(kafka):
            kafka.create_topic("orders")
            assert len(ports) == 1

        @pytest.mark.kafka(virtual_time=True)
        def test_virtual_time(kafka):
            kafka.advance(45)
        """
    )
    _run(pytester).assert_outcomes(passed=3)


def test_markers_are_merged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka(settings={"num.partitions": 3, "group.max.size": 7}, virtual_time=True)

        @pytest.mark.kafka(settings={"num.partitions": 5})
        def test_settings(kafka):
            settings = kafka.call(lambda server: server.settings)
            assert settings.number("num.partitions") == 5
            assert settings.number("group.max.size") == 7
            assert settings.number("group.initial.rebalance.delay.ms") == 0
            kafka.advance(1)
        """
    )
    _run(pytester).assert_outcomes(passed=1)


def test_session_fixture_is_shared(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_one(kafka_session):
            kafka_session.create_topic("one")

        def test_two(kafka_session):
            assert kafka_session.call(lambda server: server.broker.topics.get("one")) is not None
        """
    )
    _run(pytester).assert_outcomes(passed=2)


def test_xdist_workers_are_separate(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_one(kafka, number):
            kafka.create_topic("orders")
            kafka.restart()
        """
    )
    _run(pytester, "-n", "2").assert_outcomes(passed=4)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("kafka('fast')", "*@pytest.mark.kafka does not take 'fast'; use settings={...} and virtual_time=True.*"),
        ("kafka(time='virtual')", "*@pytest.mark.kafka does not take time; use settings*"),
        ("kafka(settings={'num.partition': 1})", "*num.partition is not a broker setting*num.partitions?*"),
    ],
)
def test_invalid_marker_message(pytester: pytest.Pytester, marker: str, message: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_one(kafka): pass\n")
    done = _run(pytester)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([message])


def test_run_without_fixture_imports_no_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_one():
            assert "slackwater.testing.plugin" in sys.modules
            assert not [name for name in sys.modules if name.startswith(("slackwater.broker", "uvloop"))]
        """
    )
    _run(pytester).assert_outcomes(passed=1)


def test_fixture_and_marker_help(pytester: pytest.Pytester) -> None:
    done = _run(pytester, "--fixtures")
    done.stdout.fnmatch_lines(["kafka -- *", "*A broker for this test*"])
    done = _run(pytester, "--markers")
    done.stdout.fnmatch_lines(["@pytest.mark.kafka(settings=None, virtual_time=False): *"])
