"""Boards as dictionaries: files and what programs print, as recorded from boards and manuals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import DeviceError, DeviceStorageError
from engine.devices.transport import Completed, Conversation, Moved, TransportKind

Answer = bytes | Completed | DeviceError | Callable[[Sequence[str]], Completed]


@dataclass
class Board:
    """A transport over dictionaries; keeps what it was asked, to prove that nothing else was."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    programs: Mapping[str, Answer] = field(default_factory=dict)
    kind: TransportKind = "adb"
    name: str = "515e9b401c060c0b"
    converses: bool = True
    denied: frozenset[str] = frozenset()
    has_grep: bool = True
    lost: DeviceError | None = None
    asked: list[tuple[str, ...]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def run(
        self,
        words: Sequence[str],
        *,
        seconds: float = 10.0,
        limit: int = 1 << 20,
        check: Callable[[], object] | None = None,
    ) -> Completed:
        self.asked.append(tuple(words))
        self.limits.append(limit)
        if self.lost is not None:
            raise self.lost
        answer = self.programs.get(" ".join(words), self.programs.get(words[0]))
        if answer is None:
            answer = self._builtin(words)
        if isinstance(answer, DeviceError):
            raise answer
        if callable(answer):
            answer = answer(words)
        done = answer if isinstance(answer, Completed) else Completed(0, answer)
        return Completed(done.code, done.out[:limit], done.err[:limit])

    def _builtin(self, words: Sequence[str]) -> Completed:
        if words[0] == "grep" and self.has_grep:
            return self._grep(words)
        if words[0] == "head" and words[-1] in self.files:
            return Completed(0, self.files[words[-1]][: int(words[2])])
        if words[0] == "ls":
            names = sorted(
                {
                    path[len(folder) + 1 :].partition("/")[0]
                    for folder in words[1:]
                    for path in self.files
                    if path.startswith(folder + "/")
                }
            )
            return Completed(0 if names else 1, "\n".join(names).encode())
        return Completed(127, b"", f"sh: {words[0]}: not found".encode())

    def _grep(self, words: Sequence[str]) -> Completed:
        """As busybox: a line ends at NUL too."""
        import re

        path = words[-1]
        if path not in self.files:
            return Completed(2, b"", f"grep: {path}: No such file or directory".encode())
        if path in self.denied:
            return Completed(2, b"", f"grep: {path}: Permission denied".encode())
        patterns = [words[i + 1].encode() for i, word in enumerate(words) if word == "-e"]
        lines = self.files[path].replace(b"\0", b"\n").split(b"\n")
        found = [line for line in lines if any(re.search(p, line) for p in patterns)]
        return Completed(0 if found else 1, b"".join(line + b"\n" for line in found))

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        self.asked.append(("read", path))
        self.limits.append(limit)
        if self.lost is not None:
            raise self.lost
        if path in self.denied:
            raise DeviceStorageError(f"{path} could not be read: Permission denied.")
        content = self.files.get(path)
        return None if content is None else content[:limit]

    def push(
        self, source: Path, target: str, *, executable: bool = False, moved: Moved | None = None
    ) -> None:
        raise AssertionError("nothing is pushed")

    def pull(self, source: str, target: Path, *, limit: int, moved: Moved | None = None) -> None:
        raise AssertionError("nothing is pulled")

    def remove(self, paths: Sequence[str]) -> None:
        raise AssertionError("nothing is removed")

    def converse(self, words: Sequence[str]) -> Conversation:
        raise AssertionError("nothing is started")

    def close(self) -> None:
        pass


SERVER_2 = b"\x7fELF\0x\0rknn_server version: 2.3.2 (1842325 build@2025-03-30T09:54:34)\0y"
RUNTIME_2 = b"\x7fELF\0librknnrt version: 2.3.2 (429f97ae6b@2025-04-09T09:09:27)\0\n"
SERVER_1 = b"\x7fELF\0GCC: (Linaro)\0" + b"1.7.5 (8b94b4f build: 2023-06-26 15:03:52)\0"
RUNTIME_1 = (
    b"\x7fELF\0librknn_runtime version 1.7.5 (7b8f8c4 build: 2023-06-25 10:11:12 base: 1131)\0"
)
MEMINFO = (
    b"MemTotal:        8119956 kB\nMemFree:         6508432 kB\nMemAvailable:    7211008 kB\n"
    b"Cached:           500000 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\n"
    b"CmaTotal:          16384 kB\nCmaFree:            8192 kB\n"
)
DF = (
    b"Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/root 9000000 1 8000000 1% /\n"
)
PS = b"  PID TTY          TIME CMD\n  321 ?        00:00:00 rknn_server\n"
ELF_ARM64 = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\0\xb7\0"
ELF_ARM = b"\x7fELF\x01\x01\x01" + b"\0" * 9 + b"\x03\0\x28\0"
DEVICES = (
    b"/dev/rknpu: No such file\n/dev/dri:\ntotal 0\n"
    b"crw-rw---- 1 root video  226,   0 Jan  1 00:00 card0\n"
    b"crw-rw---- 1 root render 226, 128 Jan  1 00:00 renderD128\n"
    b"crw-rw---- 1 root render 226, 129 Jan  1 00:00 renderD129\n"
)


def rk3588(
    files: Mapping[str, bytes | None] | None = None,
    programs: Mapping[str, Answer] | None = None,
    *,
    name: str = "515e9b401c060c0b",
    denied: frozenset[str] = frozenset(),
    has_grep: bool = True,
) -> Board:
    """Debian 11 on an evaluation board, as root; None takes a file away."""
    npu = "/sys/class/devfreq/fdab0000.npu"
    cpu = "/sys/devices/system/cpu"
    zone = "/sys/class/thermal/thermal_zone"
    all_files: dict[str, bytes | None] = {
        "/proc/device-tree/compatible": b"rockchip,rk3588-evb1-lp4-v10\0rockchip,rk3588\0",
        "/proc/device-tree/model": b"Rockchip RK3588 EVB1 LP4 V10 Board\0",
        "/proc/device-tree/serial-number": b"515e9b401c060c0b\0",
        "/etc/os-release": b'PRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\nNAME="Debian"\n',
        "/proc/meminfo": MEMINFO,
        "/proc/mounts": b"none /sys/kernel/debug debugfs rw,relatime 0 0\n",
        "/proc/self/status": b"Name:\tcat\nUid:\t0\t0\t0\t0\n",
        "/bin/sh": ELF_ARM64,
        "/lib/ld-linux-aarch64.so.1": ELF_ARM64,
        "/usr/bin/rknn_server": SERVER_2,
        "/usr/lib/librknnrt.so": ELF_ARM64 + RUNTIME_2,
        "/sys/kernel/debug/rknpu/version": b"RKNPU driver: v0.9.8\n",
        "/sys/kernel/debug/rknpu/load": b"NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,\n",
        f"{npu}/cur_freq": b"1000000000\n",
        f"{npu}/load": b"100@1000000000Hz\n",
        f"{npu}/governor": b"rknpu_ondemand\n",
        f"{npu}/available_governors": b"rknpu_ondemand userspace powersave performance\n",
        "/sys/class/devfreq/dmc/cur_freq": b"2112000000\n",
        "/sys/class/devfreq/dmc/governor": b"dmc_ondemand\n",
        "/sys/class/devfreq/dmc/available_governors": b"dmc_ondemand userspace performance\n",
    }
    for policy in (0, 4, 6):
        folder = f"{cpu}/cpufreq/policy{policy}"
        all_files[f"{folder}/scaling_cur_freq"] = b"1800000\n"
        all_files[f"{folder}/scaling_governor"] = b"ondemand\n"
        all_files[f"{folder}/scaling_available_governors"] = b"ondemand userspace performance\n"
    for number, (kind, temp) in enumerate(
        [("soc-thermal", 41615), ("bigcore0-thermal", 42538), ("npu-thermal", 40692)]
    ):
        all_files[f"{zone}{number}/type"] = f"{kind}\n".encode()
        all_files[f"{zone}{number}/temp"] = f"{temp}\n".encode()
    for trip, (kind, temp) in enumerate(
        [("passive", 75000), ("passive", 95000), ("critical", 115000)]
    ):
        all_files[f"{zone}0/trip_point_{trip}_type"] = f"{kind}\n".encode()
        all_files[f"{zone}0/trip_point_{trip}_temp"] = f"{temp}\n".encode()
    all_files["/sys/class/hwmon/hwmon2/name"] = b"ina226\n"
    all_files["/sys/class/hwmon/hwmon2/power1_input"] = b"5120000\n"
    all_programs: dict[str, Answer] = {
        "uname -m": b"aarch64\n",
        "uname -r": b"5.10.160\n",
        "ps -ef": PS,
        "df": DF,
        "ls -l /dev/dri /dev/rknpu": DEVICES,
        "id": b"uid=0(root) gid=0(root) groups=0(root)\n",
    }
    all_files.update(files or {})
    all_programs.update(programs or {})
    present = {path: content for path, content in all_files.items() if content is not None}
    return Board(present, all_programs, name=name, denied=denied, has_grep=has_grep)


def rk1808() -> Board:
    """Buildroot with an old adbd: output with CRLF, no os-release worth much."""
    files = {
        "/proc/device-tree/compatible": b"rockchip,rk1808-evb-v10\0rockchip,rk1808\0",
        "/proc/device-tree/model": b"Rockchip RK1808 EVB V10 Board\0",
        "/etc/os-release": b"NAME=Buildroot\nVERSION=2018.02-rc3\nID=buildroot\n",
        "/proc/meminfo": b"MemTotal: 1010000 kB\nMemFree: 600000 kB\nCached: 100000 kB\n",
        "/proc/self/status": b"Uid:\t0\t0\t0\t0\n",
        "/usr/bin/rknn_server": SERVER_1,
        "/usr/lib/librknn_runtime.so": RUNTIME_1,
        "/sys/class/devfreq/ffbc0000.npu/cur_freq": b"792000000\n",
        "/sys/class/thermal/thermal_zone0/type": b"soc-thermal\n",
        "/sys/class/thermal/thermal_zone0/temp": b"51000\n",
    }
    log = b"[    5.100000] galcore: Galcore version 6.4.6.5.351518\r\n"
    return Board(
        files,
        {
            "uname -m": b"aarch64\r\n",
            "uname -r": b"4.4.194\r\n",
            "dmesg": log,
            "ps -ef": Completed(1, b"ps: invalid option -- 'e'\r\n"),
            "ps": b"  PID USER       VSZ STAT COMMAND\r\n  187 root     11232 S    rknn_server\r\n",
            "df": DF,
        },
        name="TS018083200400316",
        converses=False,
    )


def android() -> Board:
    """RK3588 with Android 12, whose shell may not read the device tree."""
    properties = {
        "ro.build.version.sdk": b"31\n",
        "ro.build.version.release": b"12\n",
        "ro.soc.model": b"\n",
        "ro.board.platform": b"rk3588\n",
        "ro.product.model": b"rk3588_s\n",
        "ro.serialno": b"c3d9b8674f4b94f6\n",
    }
    programs: dict[str, Answer] = {f"getprop {key}": text for key, text in properties.items()}
    programs |= {
        "getprop": b"\n",
        "uname -m": b"aarch64\n",
        "uname -r": b"5.10.110\n",
        "ps -ef": b"UID PID PPID C STIME CMD\nroot 412 1 0 1 /vendor/bin/rknn_server\n",
        "id": b"uid=2000(shell) gid=2000(shell) groups=2000(shell),1003(graphics)\n",
        "df": DF,
    }
    files = {
        "/vendor/bin/rknn_server": SERVER_2,
        "/vendor/lib64/librknnrt.so": ELF_ARM64 + RUNTIME_2,
        "/system/bin/sh": ELF_ARM64,
        "/proc/meminfo": MEMINFO,
        "/proc/self/status": b"Uid:\t2000\t2000\t2000\t2000\n",
        "/proc/mounts": b"debugfs /sys/kernel/debug debugfs rw 0 0\n",
    }
    return Board(files, programs)
