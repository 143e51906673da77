"""The dashboard as a user meets it: a real server on a real store, looked at with a real browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from toy_store import ENVIRONMENT, TEMPLATES, toy_failure, toy_key, toy_ok

from tuner.cli.support.dashboard_server import serve
from tuner.errors import UsageError
from tuner.storage import Store

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--window-size=1600,1600", "--virtual-time-budget=20000"),
)


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[str]
    first_line: str
    address: str
    study: str
    path: Path

    def ask(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
        request = urllib.request.Request(self.address + path, data=body, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("dashboard") / "tuner.db"
    with Store.open(path) as store:
        handle = store.study(toy_key(), ENVIRONMENT, TEMPLATES)
        handle.record_all([toy_ok(n, 1e-3 * (1 + n % 5), pruned=n == 4, confirmed=n == 0) for n in range(12)])
        handle.record(toy_failure(12, "wrong_result", "y[0, 1, 2, 3] is nan"))
        handle.note()
    process = start(path)
    assert process.stdout
    first_line = process.stdout.readline()
    address = next((word for word in first_line.split() if word.startswith("http")), "")
    try:
        yield Served(process, first_line, address.rstrip("/"), handle.name, path)
    finally:
        process.kill()
        process.communicate()


def start(path: Path) -> subprocess.Popen[str]:
    code = "import sys; from tuner.cli.support.dashboard_server import serve; serve(sys.argv[1])"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_address_is_the_first_line_on_this_machine_only(served: Served) -> None:
    assert served.address.startswith("http://127.0.0.1:"), served.first_line
    assert str(served.path) in served.first_line


def test_dashboard_lists_the_study_and_its_trials(served: Served) -> None:
    _, listed = served.ask("/api/studies")
    (summary,) = json.loads(listed)["study_summaries"]
    assert summary["study_name"] == served.study
    _, detail = served.ask(f"/api/studies/{summary['study_id']}")
    study = json.loads(detail)
    assert [trial["state"] for trial in study["trials"]].count("Complete") == 11
    assert study["trials"][4]["state"] == "Pruned"
    assert study["trials"][4]["values"] == [pytest.approx(5.0)]
    assert study["trials"][12]["state"] == "Fail"
    attributes = {pair["key"]: pair["value"] for pair in study["trials"][12]["user_attrs"]}
    assert attributes["error"] == '"y[0, 1, 2, 3] is nan"' or attributes["error"] == "y[0, 1, 2, 3] is nan"
    assert study["objective_names"] == ["ms"]
    assert "tune export" in study["note"]["body"]


def test_dashboard_does_not_delete_measurements(served: Served) -> None:
    for path, method in (
        ("/api/studies/1", "DELETE"),
        ("/api/studies/1/", "DELETE"),
        ("/api/studies/1/rename", "POST"),
    ):
        status, answer = served.ask(path, method, b'{"study_name": "mine"}')
        assert status == 403
        assert "measurements" in json.loads(answer)["reason"]
    with Store.open(served.path, create=False) as store:
        assert store.find_study(served.study).counts() == {"ok": 12, "wrong_result": 1}


@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the PATH")
def test_browser_shows_the_study_and_a_trial(served: Served, tmp_path: Path) -> None:
    page = look_at(f"{served.address}/dashboard/studies/1/trials?numbers=0", tmp_path)
    for needed in (served.study, "13 Trials", "Trial 12", "Pruned", "TILE_WIDTH 8", "gflops"):
        assert needed in page, needed


def look_at(address: str, profile: Path) -> str:
    """Return the page after its scripts have run."""
    assert BROWSER
    command = [BROWSER, *QUIET, f"--user-data-dir={profile}", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def test_ctrl_c_ends_the_dashboard_quietly(served: Served) -> None:
    process = start(served.path)
    assert process.stdout
    assert "http://" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=300)
    assert (process.returncode, output.strip(), error) == (0, "", "")


def test_taken_port_is_one_line(served: Served) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="is taken; leave --port out") as caught:
            serve(served.path, port=taken.getsockname()[1])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("192.0.2.1", None), ("no such host", None)])
def test_address_that_cannot_be_had_is_one_line(served: Served, host: str, port: int | None) -> None:
    with pytest.raises(UsageError, match=r"not between|cannot be had") as caught:
        serve(served.path, host=host, port=port)
    assert "\n" not in str(caught.value)


def test_store_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        serve(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []
