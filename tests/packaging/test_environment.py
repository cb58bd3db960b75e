"""``scripts/environment.sh`` on machines that lack what it needs, and after accidents.

Each machine is a folder of links to the few programs the script calls, and the Pythons of the case.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# fmt: off
TOOLS = [
    "cat", "cksum", "date", "dirname", "flock", "getconf", "grep", "id", "ls", "mkdir", "mv", "rm",
    "rmdir", "sh", "sleep", "tail", "uname",
]
# fmt: on

OS_RELEASES = {
    "debian12": "ID=debian\nVERSION_ID=12\nVERSION_CODENAME=bookworm\n",
    "debian11": "ID=debian\nVERSION_ID=11\nVERSION_CODENAME=bullseye\n",
    "ubuntu22": "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=jammy\nUBUNTU_CODENAME=jammy\n",
    "mint22": 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME=z\nUBUNTU_CODENAME=noble\n',
    "fedora": "ID=fedora\nVERSION_ID=44\n",
    "rocky": 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n',
    "tumbleweed": 'ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n',
    "leap": 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n',
    "arch": "ID=arch\n",
    "alpine": "ID=alpine\nVERSION_ID=3.22\n",
    "unknown": "ID=plan9\n",
}

TINY_PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "rknntui"
version = "0"
[project.scripts]
rknntui = "rknntui_tiny:main"
"""

TINY_BACKEND = """
import tomllib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    with open("pyproject.toml", "rb") as file:
        program = tomllib.load(file)["project"]["name"]
    package = program.replace("-", "_")
    name, info = f"{package}-0-py3-none-any.whl", f"{package}-0.dist-info/"
    files = {
        f"{package}_tiny.py": "def main():\\n    print('it runs')\\n",
        info + "METADATA": f"Metadata-Version: 2.1\\nName: {program}\\nVersion: 0\\n",
        info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\n"
        "Tag: py3-none-any\\n",
        info + "entry_points.txt": f"[console_scripts]\\n{program} = {package}_tiny:main\\n",
    }
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(info + "RECORD", "".join(f"{p},,\\n" for p in files) + info + "RECORD,,\\n")
    return name

def build_wheel(folder, config_settings=None, metadata_directory=None):
    return build_editable(folder)
"""


class Machine:
    """A clone, a PATH and an empty home."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.clone, self.bin, self.home = folder / "clone", folder / "bin", folder / "home"
        for made in (self.clone / "scripts", self.clone / ".ci", self.bin, self.home):
            made.mkdir(parents=True)
        shutil.copy(repository / "scripts" / "environment.sh", self.clone / "scripts")
        (self.clone / "emulator").mkdir()
        for place in (self.clone, self.clone / "emulator"):
            name = "rknntui" if place == self.clone else "rknntui-emulator"
            tiny = TINY_PYPROJECT.replace('"rknntui"', f'"{name}"')
            (place / "pyproject.toml").write_text(tiny.replace("\nrknntui =", f"\n{name} ="))
            (place / "backend.py").write_text(TINY_BACKEND)
        for level in ("core", "dev"):
            (self.clone / ".ci" / f"{level}.lock").write_text("")
        self.variables: dict[str, str] = {}
        self.os_release = folder / "os-release"
        self.os_release.write_text(OS_RELEASES["debian12"])
        for tool in TOOLS:
            if found := shutil.which(tool):
                (self.bin / tool).symlink_to(found)

    def program(self, name: str, text: str) -> None:
        """Put a shell script on the PATH."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def environment(self) -> dict[str, str]:
        keep = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_", "HTTP"))}
        return keep | {
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "RKNNTUI_OS_RELEASE": str(self.os_release),
            **self.variables,
        }

    def start(self, level: str = "core") -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", str(self.clone / "scripts" / "environment.sh"), level],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, level: str = "core") -> tuple[int, list[str]]:
        """Exit code and the lines on stderr; nothing may come on stdout."""
        process = self.start(level)
        out, err = process.communicate(timeout=300)
        assert out == ""
        return process.returncode, err.splitlines()

    def refuses(self) -> str:
        """The one line that says why nothing is made."""
        code, lines = self.run()
        assert (code, len(lines)) == (1, 1)
        return lines[0]

    def says(self) -> str:
        """What the made program prints."""
        program = self.clone / ".venv" / "bin" / "rknntui"
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def machine(tmp_path: Path, repository: Path) -> Machine:
    return Machine(tmp_path, repository)


def fake_python(machine: Machine, name: str, minor: int) -> None:
    """A Python of another version, as far as the script asks for it."""
    answer = "exit 1" if not 11 <= minor <= 13 else f"echo 3.{minor}"
    machine.program(name, f'case "$1" in -c) {answer} ;; *) exit 1 ;; esac')


def without_ensurepip(machine: Machine, tmp_path: Path) -> None:
    """This Python as Debian ships it without python3-venv: nothing but ensurepip is missing."""
    name = f"python3.{sys.version_info.minor}"
    base, copy = Path(sys.base_prefix), tmp_path / "crippled"
    library = copy / "lib" / name
    library.mkdir(parents=True)
    (copy / "bin").mkdir()
    shutil.copy(os.path.realpath(sys.executable), copy / "bin" / name)
    for entry in (base / "lib" / name).iterdir():
        if entry.name not in {"ensurepip", "site-packages", "__pycache__"}:
            (library / entry.name).symlink_to(entry)
    (library / "site-packages").mkdir()
    libraries = f'LD_LIBRARY_PATH="{base / "lib"}"; export LD_LIBRARY_PATH'
    machine.program(name, f'{libraries}\nexec "{copy / "bin" / name}" "$@"')


def full_python(machine: Machine) -> None:
    real = os.path.realpath(sys.executable)
    machine.program(f"python3.{sys.version_info.minor}", f'exec "{real}" "$@"')


@pytest.mark.parametrize(
    ("system", "advice"),
    [
        ("debian12", "apt-get install python3.11-venv"),
        ("debian11", "install uv, which brings its own"),
        ("ubuntu22", "apt-get install python3.11-venv"),
        ("mint22", "apt-get install python3.12-venv"),
        ("fedora", "dnf install python3.12"),
        ("rocky", "dnf install python3.12"),
        ("tumbleweed", "zypper install python313"),
        ("leap", "zypper install python311"),
        ("arch", "pacman -S uv"),
        ("alpine", "use a distribution with glibc 2.28"),
        ("unknown", "install uv, which brings its own"),
    ],
)
def test_only_python_310(machine: Machine, system: str, advice: str) -> None:
    fake_python(machine, "python3", 10)
    fake_python(machine, "python3.10", 10)
    machine.os_release.write_text(OS_RELEASES[system])
    line = machine.refuses()
    assert "there is no Python 3.11, 3.12 or 3.13" in line
    assert advice in line
    assert not (machine.clone / ".venv").exists()
    assert not list(machine.home.iterdir())


def test_a_real_python_310_is_refused(machine: Machine) -> None:
    old = sorted(Path("~root/.pyenv/versions").expanduser().glob("3.10.*/bin/python3.10"))
    if not old:
        pytest.skip("there is no Python 3.10 on this machine")
    machine.program("python3", f'exec "{old[0]}" "$@"')
    machine.refuses()


def test_no_python_at_all_and_none_too_new(machine: Machine) -> None:
    assert machine.run()[0] == 1
    fake_python(machine, "python3", 14)
    assert machine.run()[0] == 1


def test_without_ensurepip(machine: Machine, tmp_path: Path) -> None:
    without_ensurepip(machine, tmp_path)
    code, lines = machine.run()
    version = f"3.{sys.version_info.minor}"
    assert code == 1
    assert f"python{version} cannot make an environment" in lines[-2]
    assert lines[-1].startswith(f"rknntui: Python {version} cannot make environments here;")
    assert f"apt-get install python{version}-venv" in lines[-1]
    assert not (machine.clone / ".venv").exists()


def test_another_c_library_or_cpu_is_said_in_one_line(machine: Machine) -> None:
    (machine.bin / "getconf").unlink()
    machine.program("getconf", "echo glibc 2.24")
    assert "glibc 2.28" in machine.refuses()
    (machine.bin / "uname").unlink()
    machine.program("uname", 'case "$1" in -s) echo Linux ;; *) echo armv7l ;; esac')
    assert "armv7l" in machine.refuses()


def test_a_wrong_rknntui_python_is_named(machine: Machine) -> None:
    """Another one on the PATH is not the cause, nor a remedy."""
    fake_python(machine, "python3", 12)
    fake_python(machine, "old", 10)
    for name, why in (("old", "is no Python from 3.11 to 3.13"), ("/none", "does not exist")):
        machine.variables["RKNNTUI_PYTHON"] = name
        assert f"RKNNTUI_PYTHON names {name}, which {why}" in machine.refuses()


def test_wrong_use(machine: Machine) -> None:
    assert machine.run("everything")[0] == 2


@pytest.mark.long
def test_made_once_and_mended_after_accidents(machine: Machine) -> None:
    full_python(machine)
    venv = machine.clone / ".venv"

    assert machine.run()[0] == 0
    assert machine.says() == "it runs\n"
    assert not list(machine.home.iterdir())

    assert machine.run() == (0, []), "a ready environment is only looked at"

    # A half-made one, one whose Python is gone, and one whose install was killed.
    (venv / "bin" / "rknntui").unlink()
    assert machine.run()[0] == 0
    assert machine.says() == "it runs\n"
    (venv / "bin" / "python").unlink()
    assert machine.run()[0] == 0
    assert machine.says() == "it runs\n"
    (venv / ".rknntui-unfinished").touch()
    (venv / "half-installed").touch()
    assert machine.run()[0] == 0
    assert not (venv / "half-installed").exists()

    # Newer locks are installed on top; the development level serves the core too.
    (machine.clone / ".ci" / "core.lock").write_text("# newer\n")
    code, lines = machine.run("dev")
    assert code == 0
    assert not any("making" in line for line in lines)
    assert machine.run("core") == (0, [])

    # A moved clone holds the old paths.
    moved = machine.clone.with_name("moved")
    machine.clone.rename(moved)
    machine.clone = moved
    assert machine.run()[0] == 0
    assert machine.says() == "it runs\n"


@pytest.mark.long
def test_a_copy_in_the_place_of_the_clone_is_noticed(machine: Machine) -> None:
    full_python(machine)
    assert machine.run()[0] == 0
    venv = machine.clone / ".venv"
    for words in (["."], [".", "--force-reinstall"]):
        install = [venv / "bin" / "python", "-m", "pip", "install", "-q", *words]
        subprocess.run(install, cwd=machine.clone, check=True, capture_output=True)
    (venv / "of-an-extra").touch()
    code, lines = machine.run()
    assert code == 0
    assert [line for line in lines if "a copy of this program" in line] == lines
    assert (venv / "of-an-extra").exists(), "the packages that are there stay"
    assert machine.run() == (0, [])

    subprocess.run([*install[:5], "-e", "."], cwd=machine.clone, check=True, capture_output=True)
    assert machine.run() == (0, [])


@pytest.mark.long
def test_an_environment_of_the_users_own_is_never_deleted(machine: Machine) -> None:
    full_python(machine)
    venv = machine.clone / ".venv"
    (venv / "mine").mkdir(parents=True)
    code, lines = machine.run()
    assert code == 0
    assert any("it is kept as" in line for line in lines)
    assert [p / "mine" for p in machine.clone.glob(".venv.old-*") if (p / "mine").is_dir()]


@pytest.mark.long
def test_killed_and_interrupted_while_installing(machine: Machine) -> None:
    full_python(machine)
    backend = machine.clone / "backend.py"
    backend.write_text(f"import time; time.sleep(60)\n{TINY_BACKEND}")
    for number, expected in ((signal.SIGKILL, -9), (signal.SIGTERM, 130), (signal.SIGINT, 130)):
        process = machine.start()
        deadline = time.monotonic() + 180
        log = machine.clone / ".venv" / "install.log"
        while not (log.exists() and "Obtaining" in log.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # A terminal's Ctrl-C reaches all of them, the signal of a supervisor only the script.
        if number == signal.SIGTERM:
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)
        process.communicate(timeout=30)
        assert process.returncode == expected
        log.unlink()
    backend.write_text(TINY_BACKEND)
    assert machine.run()[0] == 0
    assert machine.says() == "it runs\n"


@pytest.mark.long
def test_a_failing_install_shows_the_end_of_its_log(machine: Machine) -> None:
    full_python(machine)
    (machine.clone / "backend.py").write_text("raise RuntimeError('no such day')\n")
    code, lines = machine.run()
    assert code == 1
    assert any("no such day" in line for line in lines)
    assert "pip could not install" in lines[-1]


@pytest.mark.long
def test_uv_helps_where_there_is_no_ensurepip(machine: Machine, tmp_path: Path) -> None:
    place = tmp_path / "uv"
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(place), "uv"]
    subprocess.run(command, check=True, capture_output=True)
    without_ensurepip(machine, tmp_path)
    machine.program("uv", f'exec "{place / "bin" / "uv"}" "$@"')
    code, lines = machine.run()
    assert code == 0, lines
    assert any("with uv" in line for line in lines)
    assert machine.says() == "it runs\n"
