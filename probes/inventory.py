"""What the bits of this process depend on, as one JSON object.

    python inventory.py [--warm-up] [--deep | --deep=NAME,NAME] [--image]

One file, the standard library alone, Python 3.6 or later: it is started with the Python of
whatever stack is under study. ``software``, ``controls`` and ``hardware`` are identity and
hold no floats; ``evidence`` (times, names of hosts, serial numbers, problems met) is not
identity. A value that could not be read is null and named in ``evidence.problems``.
Paths inside the environment start with ``<prefix>``: equal environments in different folders
are described equally. Git, and rpm where the system is made of its packages, are the only
programs that are started.
"""

# ruff: noqa: UP006, UP035 - typing's names are the ones that Python 3.6 has

import base64
import binascii
import csv
import ctypes
import hashlib
import io
import itertools
import json
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Optional,
    Set,
    Tuple,
    Union,
)
from urllib.parse import unquote

SCHEMA = 1
PREFIX = "<prefix>"
WITHHELD = "<withheld>"

Json = Dict[str, Any]
Deep = Union[bool, FrozenSet[str]]
Segment = Tuple[int, int, int, int]  # of an ELF file: kind, offset, address, length

# A prefix that is the system's own says nothing about an environment.
SYSTEM_PREFIXES = ("/", "/usr", "/usr/local")

CONTROL_PREFIXES = (
    "ATEN_", "BLIS_", "CAUSAL_CONV1D_", "CUBLAS", "CUDA_", "CUDNN_", "DNNL_", "FLASH_", "GOMP_",
    "GOTO_", "HIP_", "HSA_", "KMP_", "LD_", "MAMBA_", "MIOPEN_", "MKL_", "NCCL_", "NPY_",
    "NUMEXPR_", "NVIDIA_", "NVTE_", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTORCH", "ROCBLAS_",
    "TORCH", "TRITON_", "VECLIB_", "XLA_",
)  # fmt: skip

# Unset is a value too: these are null where nobody set them.
KNOWN_CONTROLS = (
    "ATEN_CPU_CAPABILITY", "CAUSAL_CONV1D_DETERMINISTIC", "CUBLASLT_WORKSPACE_SIZE",
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING", "DNNL_DEFAULT_FPMATH_MODE", "GLIBC_TUNABLES", "KMP_AFFINITY",
    "KMP_DETERMINISTIC_REDUCTION", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "MAMBA_DETERMINISTIC", "MKL_CBWR", "MKL_DYNAMIC", "MKL_ENABLE_INSTRUCTIONS",
    "MKL_NUM_THREADS", "NCCL_ALGO", "NCCL_PROTO", "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES", "NVIDIA_TF32_OVERRIDE", "NVTE_ALLOW_NONDETERMINISTIC_ALGO",
    "NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "OMP_DYNAMIC", "OMP_NUM_THREADS", "OMP_PROC_BIND",
    "OMP_SCHEDULE", "ONEDNN_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED", "PYTORCH_CUDA_ALLOC_CONF",
    "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT", "TRITON_CACHE_AUTOTUNING", "TRITON_F32_DEFAULT",
)  # fmt: skip

# Where a trial was put, not what it computes: a fresh cache or another slot is no other stack.
PLACEMENT = (
    "CUDA_CACHE_PATH", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
    "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCH_HOME", "TRITON_CACHE_DIR",
    "TRITON_DUMP_DIR", "TRITON_HOME", "TRITON_OVERRIDE_DIR",
)  # fmt: skip

SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|(?:^|_)PASS$|_PWD$|CREDENTIAL", re.IGNORECASE)
# Of a URL, wherever one stands in a value. A password may hold what does not belong there.
LOGIN = re.compile(r"(?<=://)[^/\s]+(?=@)")

# Files that differ between two installations of the same wheel, by installer or by folder.
VOLATILE_RECORDS = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_cache.json")

# Where images keep sources that they run, themselves or up to two levels deep.
TREE_ROOTS = ("/opt", "/workspace", "/usr/src", "~")
LONGEST_SEARCH = 4000  # folders
PROGRAM_SECONDS = 20.0

COMPILERS = ("c++", "cc", "clang", "clang++", "g++", "gcc", "hipcc", "ld", "nvcc", "nvrtc", "ptxas")


class Notes:
    """Problems met on the way: reported, never dropped."""

    def __init__(self) -> None:
        self.problems: List[Json] = []

    def add(self, what: str, error: object) -> None:
        reason = error if isinstance(error, str) else type(error).__name__
        self.problems.append({"what": what, "reason": reason})


def read_bytes(path: str, notes: Notes, required: bool = True) -> Optional[bytes]:
    """The bytes of a file; None where it is absent or unreadable, which is noted if required."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError as error:
        if required:
            notes.add(path, error)
    except OSError as error:
        notes.add(path, error)
    return None


def read_text(path: str, notes: Notes, required: bool = True) -> Optional[str]:
    data = read_bytes(path, notes, required)
    return None if data is None else data.decode("utf-8", "replace")


class Places:
    """Writes paths relative to the environment that they lie in.

    :param prefix: the environment's folder (``sys.prefix``).
    """

    def __init__(self, prefix: str) -> None:
        names = {os.path.normpath(prefix), os.path.realpath(prefix)}
        self.prefixes = sorted(names - set(SYSTEM_PREFIXES), key=len, reverse=True)

    def short(self, path: str) -> str:
        for prefix in self.prefixes:
            if path == prefix or path.startswith(prefix + os.sep):
                return PREFIX + path[len(prefix) :]
        return path

    def short_value(self, value: str) -> str:
        """The same for a value with several paths in it, such as a search path."""
        return os.pathsep.join(self.short(part) for part in value.split(os.pathsep))


# ---- ELF files ---------------------------------------------------------------------------


class Elf:
    """The little of an ELF file that identifies it: build-id and soname (each may be None).

    Reads the program headers and what they point to, never the whole file.
    """

    def __init__(self, path: str) -> None:
        self.build_id: Optional[str] = None
        self.soname: Optional[str] = None
        with open(path, "rb") as stream:
            head = stream.read(64)
            self.is_elf = len(head) >= 52 and head[:4] == b"\x7fELF"
            if self.is_elf:
                self._read(stream, head)

    def _read(self, stream: Any, head: bytes) -> None:
        wide = head[4] == 2
        order = "<" if head[5] == 1 else ">"
        offset = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)[0]
        size, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
        stream.seek(offset)
        table = stream.read(size * count)
        segments = [self._segment(table, i * size, wide, order) for i in range(count)]
        for kind, start, _, length in segments:
            if kind == 4 and self.build_id is None:
                stream.seek(start)
                self.build_id = build_id_of_notes(stream.read(min(length, 65536)), order)
            elif kind == 2:
                stream.seek(start)
                dynamic = stream.read(min(length, 65536))
                self.soname = self._soname(stream, dynamic, segments, wide, order)

    @staticmethod
    def _segment(table: bytes, at: int, wide: bool, order: str) -> Segment:
        if wide:
            kind, _, start, address, _, length = struct.unpack_from(order + "IIQQQQ", table, at)
        else:
            kind, start, address, _, length = struct.unpack_from(order + "IIIII", table, at)
        return kind, start, address, length

    @staticmethod
    def _soname(
        stream: Any, dynamic: bytes, segments: List[Segment], wide: bool, order: str
    ) -> Optional[str]:
        pair = struct.Struct(order + ("qQ" if wide else "iI"))
        whole = len(dynamic) - len(dynamic) % pair.size
        entries = dict(pair.iter_unpack(dynamic[:whole]))
        if 14 not in entries or 5 not in entries:
            return None
        for kind, start, address, length in segments:
            if kind == 1 and address <= entries[5] < address + length:
                stream.seek(start + entries[5] - address + entries[14])
                name = stream.read(256).split(b"\0")[0]
                return str(name.decode("utf-8", "replace"))
        return None


def build_id_of_notes(data: bytes, order: str = "<") -> Optional[str]:
    """The GNU build-id (hex) in an ELF note segment, if one is there."""
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from(order + "III", data, at)
        name_at = at + 12
        data_at = name_at + (name_size + 3) // 4 * 4
        if kind == 3 and data[name_at : name_at + 4] == b"GNU\0":
            return binascii.hexlify(data[data_at : data_at + size]).decode("ascii")
        at = data_at + (size + 3) // 4 * 4
    return None


def sha256_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return "sha256:" + digest.hexdigest()


def describe_binary(path: str, places: Places, notes: Notes) -> Optional[Json]:
    """Identity of an ELF file: path, size and build-id, or its SHA-256 where it has none.

    None for a file that is not ELF; an unreadable file keeps its path and null values.
    """
    entry: Json = {"path": places.short(path), "size": None, "build_id": None}
    try:
        elf = Elf(path)
        if not elf.is_elf:
            return None
        entry["size"] = os.stat(path).st_size
        entry["build_id"] = elf.build_id
        if elf.soname is not None:
            entry["soname"] = elf.soname
        if elf.build_id is None:
            entry["sha256"] = sha256_of(path)
    except (OSError, struct.error) as error:
        notes.add(path, error)
    return entry


def mapped_files(maps: str) -> List[str]:
    """Paths of the files in the text of a ``/proc/PID/maps``, sorted, once each."""
    found: Set[str] = set()
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):
            found.add(fields[5])
    return sorted(path for path in found if not path.startswith(("/dev/", "/memfd:", "/SYSV")))


def loaded_libraries(places: Places, notes: Notes) -> Optional[List[Json]]:
    """Every ELF file mapped into this process, in the order of their paths."""
    maps = read_text("/proc/self/maps", notes)
    if maps is None:
        return None
    found = {path: describe_binary(path, places, notes) for path in mapped_files(maps)}
    owned = installers_of([path for path in found if found[path]], sys.path, notes)
    return [
        dict(entry, owner=owned[path]) if path in owned else entry
        for path, entry in found.items()
        if entry is not None
    ]


# ---- Python distributions ----------------------------------------------------------------


def normalised(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def header_fields(text: str) -> Dict[str, str]:
    """First value of each field of a metadata header, by lower-case name."""
    fields: Dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            break
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def search_folders(paths: Iterable[str], notes: Notes) -> List[str]:
    """Folders of an import path, in order, once each; archives are noted as not read."""
    folders: List[str] = []
    for path in paths:
        full = os.path.abspath(path or os.curdir)
        if os.path.isdir(full) and full not in folders:
            folders.append(full)
        elif os.path.isfile(full):
            notes.add(full, "an archive on sys.path was not read")
    return folders


def metadata_places(folder: str, notes: Notes) -> List[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        notes.add(folder, error)
        return []
    endings = (".dist-info", ".egg-info", ".egg-link")
    found = [os.path.join(folder, name) for name in names if name.endswith(endings)]
    for path in found:
        if os.path.basename(path).startswith("~"):
            notes.add(path, "left behind by an interrupted installation")
    return found


def record_rows(text: str) -> List[Tuple[str, str, str]]:
    """(path, hash, size) of each row of a RECORD; short rows are filled with empty text."""
    rows = []
    for row in csv.reader(io.StringIO(text)):
        if row:
            rows.append((row[0], row[1] if len(row) > 1 else "", row[2] if len(row) > 2 else ""))
    return rows


def record_digest(rows: Iterable[Tuple[str, str, str]]) -> str:
    """SHA-256 over the rows that say what was installed, not where or by whom.

    Launchers under ``bin`` hold the environment's path, so only their names count.
    """
    kept = []
    for path, digest, size in rows:
        if path.rsplit("/", 1)[-1] in VOLATILE_RECORDS:
            continue
        launcher = path.startswith("../") and ("/bin/" in path or "/Scripts/" in path)
        kept.append(path if launcher else ",".join((path, digest, size)))
    return "sha256:" + hashlib.sha256("\n".join(sorted(kept)).encode("utf-8")).hexdigest()


class FileCheck:
    """Compares the files of one distribution with its RECORD.

    :param folder: the folder that RECORD's paths start from.
    :param deep: compare SHA-256, not only sizes.
    """

    def __init__(self, folder: str, deep: bool) -> None:
        self.folder = folder
        self.deep = deep
        self.altered: List[str] = []
        self.missing: List[str] = []
        self.unreadable: List[str] = []

    def run(self, rows: Iterable[Tuple[str, str, str]]) -> None:
        start = self.folder + os.sep
        stat = os.stat
        for path, digest, size in rows:
            try:
                length = stat(path if os.path.isabs(path) else start + path).st_size
                same = not size or str(length) == size
                if same and self.deep and digest:
                    same = self._same(start + path, digest)
                if not same:
                    self.altered.append(path)
            except FileNotFoundError:
                self.missing.append(path)
            except (OSError, ValueError):
                self.unreadable.append(path)

    @staticmethod
    def _same(path: str, expected: str) -> bool:
        algorithm, _, value = expected.partition("=")
        digest = hashlib.new(algorithm)
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
        return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=") == value.encode("utf-8")


def origin_of(text: Optional[str], where: str, notes: Notes) -> Tuple[Optional[Json], bool]:
    """What ``direct_url.json`` pins (commit or hash), and whether it is an editable install."""
    if text is None:
        return None, False
    try:
        data = json.loads(text)
        vcs, archive = data.get("vcs_info") or {}, data.get("archive_info") or {}
        editable = bool((data.get("dir_info") or {}).get("editable"))
        origin: Json = {"kind": "vcs" if vcs else "folder" if "dir_info" in data else "archive"}
        if vcs:
            origin["url"] = re.sub(r"//[^/@]*@", "//", str(data.get("url")))
            origin["commit"] = vcs.get("commit_id")
        hashes = archive.get("hashes") or {}
        stated = archive.get("hash")
        if hashes:
            stated = ",".join(map("=".join, sorted(hashes.items())))
        if stated:
            origin["hash"] = stated
        if data.get("subdirectory"):
            origin["subdirectory"] = data["subdirectory"]
        return origin, editable
    except (ValueError, AttributeError, TypeError) as error:
        notes.add(where, error)
        return None, False


def describe_distribution(place: str, places: Places, notes: Notes, deep: Deep) -> Json:
    """One installed distribution, from its ``.dist-info``, ``.egg-info`` or ``.egg-link``."""
    folder, base = os.path.split(place)
    stem = base.rsplit(".", 1)[0].split("-")
    inner = place if os.path.isdir(place) else None
    entry: Json = {
        "name": normalised(stem[0]),
        "version": stem[1] if len(stem) > 1 else None,
        "location": places.short(folder),
        "installer": None,
        "editable": base.endswith(".egg-link"),
        "origin": None,
        "record": None,
        "files": None,
        "altered": [],
        "missing": [],
        "unreadable": [],
    }
    metadata = _metadata_text(place, inner, notes)
    fields = header_fields(metadata or "")
    if "name" in fields and "version" in fields:
        entry["name"], entry["version"] = normalised(fields["name"]), fields["version"]
    elif metadata is not None and not base.endswith(".egg-link"):
        notes.add(place, "no name or version in its metadata")
    if inner is not None:
        _describe_installation(entry, inner, notes, deep)
    return entry


def _metadata_text(place: str, inner: Optional[str], notes: Notes) -> Optional[str]:
    if inner is None:
        return read_text(place, notes)
    name = "METADATA" if place.endswith(".dist-info") else "PKG-INFO"
    return read_text(os.path.join(inner, name), notes)


def _describe_installation(entry: Json, inner: str, notes: Notes, deep: Deep) -> None:
    installer = read_text(os.path.join(inner, "INSTALLER"), notes, required=False)
    entry["installer"] = installer.strip() if installer else None
    url_file = os.path.join(inner, "direct_url.json")
    url = read_text(url_file, notes, required=False)
    entry["origin"], entry["editable"] = origin_of(url, url_file, notes)
    record = read_text(os.path.join(inner, "RECORD"), notes, required=inner.endswith(".dist-info"))
    if record is None:
        return
    try:
        # Whether an installer compiled what it installed is no matter of what it installed.
        rows = [row for row in record_rows(record) if not row[0].endswith(".pyc")]
    except csv.Error as error:
        notes.add(os.path.join(inner, "RECORD"), error)
        return
    chosen = deep if isinstance(deep, bool) else entry["name"] in deep
    check = FileCheck(os.path.dirname(inner), chosen)
    check.run(rows)
    entry.update(
        record=record_digest(rows),
        files=len(rows),
        altered=sorted(check.altered),
        missing=sorted(check.missing),
        unreadable=sorted(check.unreadable),
    )


def distributions(paths: Iterable[str], places: Places, notes: Notes, deep: Deep) -> List[Json]:
    """Every distribution on an import path, by name; a later one of the same name is shadowed."""
    found: List[Json] = []
    seen: Set[str] = set()
    for folder in search_folders(paths, notes):
        for place in metadata_places(folder, notes):
            entry = describe_distribution(place, places, notes, deep)
            entry["shadowed"] = entry["name"] in seen
            found.append(entry)
        seen.update(entry["name"] for entry in found)
    return sorted(found, key=lambda entry: (entry["name"], entry["shadowed"], entry["location"]))


def owners_of(files: Iterable[str], paths: Iterable[str], notes: Notes) -> Dict[str, str]:
    """Which distribution owns each of these files, by the RECORDs of an import path.

    :returns: normalised distribution name by path, for the files that some distribution owns.
    """
    wanted = {os.path.realpath(path): path for path in files}
    owned: Dict[str, str] = {}
    for folder in search_folders(paths, notes):
        root = os.path.realpath(folder) + os.sep
        inside = {real[len(root) :]: path for real, path in wanted.items() if real.startswith(root)}
        if not inside:
            continue
        for place in metadata_places(folder, notes):
            record = read_text(os.path.join(place, "RECORD"), Notes(), required=False)
            listed = {row[0] for row in record_rows(record)} if record else set()
            for name in listed.intersection(inside):
                owned.setdefault(inside[name], normalised(os.path.basename(place).split("-")[0]))
    return owned


# ---- who installed a file ------------------------------------------------------------------


def spellings(path: str) -> Set[str]:
    """Names under which a package may list a file: ``/usr/lib`` is often ``/lib`` as well."""
    real = os.path.realpath(path)
    top = real.split("/")[2] if real.startswith("/usr/") else ""
    return {path, real, real[len("/usr") :] if os.path.islink("/" + top) else real}


def dpkg_owners(paths: Iterable[str], notes: Notes, root: str = "/") -> Dict[str, str]:
    """Debian package that lists each of these files, for those that one does."""
    folder = os.path.join(root, "var/lib/dpkg/info")
    wanted = {name.encode("utf-8", "surrogateescape"): p for p in paths for name in spellings(p)}
    owned: Dict[str, str] = {}
    for name in names_in(folder) if wanted else ():
        data = read_bytes(os.path.join(folder, name), notes) if name.endswith(".list") else None
        # Most lists name no library and no program: to see that is quicker than to split them.
        if data and (b".so" in data or b"/bin/" in data):
            for line in set(wanted).intersection(data.split(b"\n")):
                owned.setdefault(wanted[line], "apt:" + name[: -len(".list")].split(":")[0])
    return owned


def python_owner(path: str) -> Optional[str]:
    """``python:…`` for the interpreter, its library and its own extension modules."""
    real, library = os.path.realpath(path), os.path.dirname(os.path.realpath(os.__file__))
    own = real.startswith(library + os.sep) and not re.search("/(site|dist)-packages/", real)
    shared = os.path.basename(real).startswith("libpython") and real.startswith(sys.base_prefix)
    executable = real == os.path.realpath(sys.executable or os.__file__)
    return "python:" + sys.implementation.name if own or shared or executable else None


def installers_of(files: Iterable[str], paths: Iterable[str], notes: Notes) -> Dict[str, str]:
    """Component that each of these files belongs to, for the files that belong to one.

    The system's packages are asked first, then the RECORDs of an import path; what neither
    lists may be Python's own.
    """
    left = list(files)
    found = dpkg_owners(left, notes)
    found.update(apk_owners(left, notes))
    left = [path for path in left if path not in found]
    found.update((path, "pip:" + name) for path, name in owners_of(left, paths, notes).items())
    own = ((path, python_owner(path)) for path in left if path not in found)
    found.update((path, name) for path, name in own if name is not None)
    return found


# ---- operating system, compilers, Python itself -------------------------------------------


def printed(arguments: List[str], notes: Notes) -> Optional[bytes]:
    """What a program prints; None, and noted, where it fails, is too slow or cannot start."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment.update(GIT_OPTIONAL_LOCKS="0", GIT_CONFIG_GLOBAL=os.devnull, LC_ALL="C")
    try:
        return subprocess.check_output(
            arguments,
            timeout=PROGRAM_SECONDS,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        notes.add(" ".join(arguments), error)
        return None


def dpkg_packages(text: str) -> List[Json]:
    """Installed packages in the text of a dpkg status file."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        fields = header_fields(paragraph)
        state = fields.get("status", "install ok installed").split()
        if "package" in fields and "installed" in state:
            found.append(
                {
                    "manager": "dpkg",
                    "name": fields["package"],
                    "version": fields.get("version"),
                    "architecture": fields.get("architecture"),
                }
            )
    return found


def apk_packages(notes: Notes, root: str = "/") -> Iterator[Tuple[Json, List[str]]]:
    """Packages in apk's database, and the files of each."""
    text = read_text(os.path.join(root, "lib/apk/db/installed"), notes, required=False) or ""
    for paragraph in re.split(r"\n\s*\n", text):
        pairs = [line.split(":", 1) for line in paragraph.splitlines() if line[1:2] == ":"]
        fields, files, folder = dict(map(tuple, pairs)), [], "/"
        for key, value in pairs:
            folder = "/" + value if key == "F" else folder
            if key == "R":
                files.append(os.path.join(folder, value))
        if "P" in fields:
            package = {"manager": "apk", "name": fields["P"], "version": fields.get("V")}
            yield dict(package, architecture=fields.get("A")), files


def apk_owners(paths: Iterable[str], notes: Notes, root: str = "/") -> Dict[str, str]:
    packages = apk_packages(notes, root)
    by_file = {name: "apk:" + package["name"] for package, names in packages for name in names}
    spelt = ((path, name) for path in paths for name in spellings(path) if name in by_file)
    return {path: by_file[name] for path, name in spelt}


def rpm_packages(notes: Notes) -> List[Json]:
    """Packages as rpm tells them: nothing else can read its database."""
    form = r"%{NAME}\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\t%{ARCH}\n"
    told = printed([shutil.which("rpm") or "rpm", "-qa", "--qf", form], notes) or b""
    rows = [line.split("\t") for line in told.decode("utf-8", "replace").splitlines()]
    names = ("name", "version", "architecture")
    return [dict(zip(names, row), manager="rpm") for row in rows if len(row) == 3]


def os_packages(notes: Notes, root: str = "/") -> List[Json]:
    """Packages of the operating system, whichever manager it has."""
    texts = [read_text(os.path.join(root, "var/lib/dpkg/status"), notes, required=False)]
    # Images without a package manager keep one file for each package.
    single = os.path.join(root, "var/lib/dpkg/status.d")
    if os.path.isdir(single):
        names = sorted(name for name in os.listdir(single) if not name.endswith(".md5sums"))
        texts.extend(read_text(os.path.join(single, name), notes) for name in names)
    found = [package for text in texts if text for package in dpkg_packages(text)]
    found.extend(package for package, _ in apk_packages(notes, root))
    if any(names_in(os.path.join(root, each)) for each in ("var/lib/rpm", "usr/lib/sysimage/rpm")):
        found.extend(rpm_packages(notes))
    return sorted(found, key=lambda entry: (entry["name"], entry["architecture"] or ""))


def alternatives(notes: Notes, folder: str = "/etc/alternatives") -> Dict[str, str]:
    """Target of each link that update-alternatives made."""
    chosen: Dict[str, str] = {}
    try:
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    except OSError as error:
        notes.add(folder, error)
        return chosen
    for name in names:
        path = os.path.join(folder, name)
        if os.path.islink(path):
            chosen[name] = os.readlink(path)
    return chosen


def compilers(paths: Iterable[str], places: Places, notes: Notes) -> List[Json]:
    """Compilers that a just-in-time compilation could reach; found, never executed."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    folders = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    folders.append(os.path.join(home, "bin"))
    candidates = [os.path.join(folder, name) for name in COMPILERS for folder in folders]
    for path in paths:
        bundled = os.path.join(path, "triton", "backends", "nvidia", "bin")
        candidates.extend(os.path.join(bundled, name) for name in ("ptxas", "ptxas-blackwell"))
    found: Dict[Tuple[str, str], Json] = {}
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            real = os.path.realpath(candidate)
            entry = describe_binary(real, places, notes) or _script(real, places, notes)
            name = os.path.basename(candidate)
            found.setdefault((name, real), dict(entry, name=name))
    return [found[key] for key in sorted(found)]


def _script(path: str, places: Places, notes: Notes) -> Json:
    """A compiler that is a wrapper script: identified by its content."""
    data = read_bytes(path, notes)
    digest = None if data is None else "sha256:" + hashlib.sha256(data).hexdigest()
    size = None if data is None else len(data)
    return {"path": places.short(path), "size": size, "build_id": None, "sha256": digest}


def libc(notes: Notes) -> Optional[str]:
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
        if version:
            return version
    except (AttributeError, OSError, ValueError):
        pass  # not glibc: the next way answers
    name, version = platform.libc_ver()
    if name:
        return name + " " + version
    notes.add("libc", "its version is not known")
    return None


def python_itself(places: Places, notes: Notes) -> Json:
    """The interpreter: version, build, and the identity of its executable."""
    real = os.path.realpath(sys.executable) if sys.executable else None
    return {
        "version": platform.python_version(),
        "implementation": sys.implementation.name,
        "build": " ".join(platform.python_build()),
        "compiler": platform.python_compiler(),
        "cache_tag": sys.implementation.cache_tag,
        "executable": None if real is None else describe_binary(real, places, notes),
        "libc": libc(notes),
    }


# ---- git trees -----------------------------------------------------------------------------

COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Programs that a tree's own settings may name. Its filters still run, like what is imported
# from it.
SAFE_GIT = ("-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")


def names_in(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def small_text(*path: str) -> str:
    """The text of a plain file; empty where there is none."""
    place = os.path.join(*path)
    return (read_text(place, Notes()) or "") if os.path.isfile(place) else ""


def git_folder(tree: str) -> Optional[str]:
    """Where git keeps what it knows of a tree: ``.git``, or what a file of that name leads to."""
    place = os.path.join(tree, ".git")
    word, _, target = small_text(place).partition(":")
    if word == "gitdir":
        return os.path.join(tree, target.strip())
    return place if os.path.isdir(place) else None


def git_commit(folder: str) -> Optional[str]:
    """The commit that is checked out, by HEAD and the references that it leads to."""
    # A worktree shares its references with the tree that it was made from.
    shared = os.path.join(folder, small_text(folder, "commondir").strip())
    packed = (line.partition(" ") for line in small_text(shared, "packed-refs").splitlines())
    by_name = {name: commit for commit, _, name in packed}
    text = small_text(folder, "HEAD").strip()
    for _ in range(5):
        if text.startswith("ref:"):
            name = text[len("ref:") :].strip()
            loose = small_text(folder, name) or small_text(shared, name)
            text = loose.strip() or by_name.get(name, "")
    return text if COMMIT.fullmatch(text) else None


def submodules(tree: str, folder: str) -> List[Json]:
    """Submodules by path, each with what is checked out there."""
    found: Dict[str, Json] = {}
    name = ""
    for line in small_text(tree, ".gitmodules").splitlines():
        head = re.match(r'\s*\[submodule "(.+)"\]', line)
        name = head.group(1) if head else name
        key, _, value = line.partition("=")
        path = os.path.normpath(value.strip())
        if key.strip() == "path" and not path.startswith(("..", "/")):
            inner = git_folder(os.path.join(tree, path)) or os.path.join(folder, "modules", name)
            found[path] = {"path": path, "commit": git_commit(inner)}
    return [found[path] for path in sorted(found)]


def git_changes(tree: str, notes: Notes) -> Tuple[Optional[bool], Optional[str]]:
    """(whether the tree is dirty, digest of how it differs from its commit); None if unknown."""
    git = [shutil.which("git") or "git", "-C", tree, *SAFE_GIT]
    status = printed([*git, "status", "--porcelain", "-z", "--untracked-files=all"], notes)
    if not status:
        return (None if status is None else False), None
    shown = ["--no-ext-diff", "--no-textconv", "--binary", "--submodule=diff"]
    diff = printed([*git, "diff", "HEAD", *shown], notes)
    digest = hashlib.sha256(status + b"\0" + (diff or b"")).hexdigest()
    return True, None if diff is None else "sha256:" + digest


def editable_folders(paths: Iterable[str]) -> Iterator[str]:
    """Where the sources lie of distributions that are imported from there, and all above."""
    for folder in search_folders(paths, Notes()):
        for place in metadata_places(folder, Notes()):
            text = small_text(place, "direct_url.json")
            link = re.search(r'"url":\s*"file://([^"]+)"', text)
            source = small_text(place).partition("\n")[0] if place.endswith(".egg-link") else ""
            if link and re.search(r'"editable":\s*true', text):
                source = unquote(link.group(1))
            for _ in range(source.count("/")):
                yield source
                source = os.path.dirname(source)


def source_folders(roots: Iterable[str]) -> Iterator[str]:
    """The folders of an image where sources are kept, and two levels below; links are left."""
    level = [os.path.expanduser(root) for root in roots]
    for _depth in range(3):
        level = [folder for folder in level if folder != "/" and not os.path.islink(folder)]
        yield from level[:LONGEST_SEARCH]
        upper = [folder for folder in level[:LONGEST_SEARCH] if git_folder(folder) is None]
        level = [os.path.join(folder, name) for folder in upper for name in names_in(folder)]


def git_trees(folders: Iterable[str], places: Places, notes: Notes) -> List[Json]:
    """Those of the folders that are git trees, by path."""
    found: Dict[str, Json] = {}
    for tree in folders:
        folder = git_folder(tree) if tree not in found else None
        if folder is not None:
            dirty, changes = git_changes(tree, notes)
            found[tree] = {
                "path": places.short(tree),
                "commit": git_commit(folder),
                "dirty": dirty,
                "changes": changes,
                "submodules": submodules(tree, folder),
            }
    return [found[tree] for tree in sorted(found)]


# ---- controls ------------------------------------------------------------------------------


def without_secrets(name: str, value: str) -> str:
    """A variable's value as it may be written down."""
    return WITHHELD if SECRET.search(name) else LOGIN.sub(WITHHELD, value)


def variables(environment: Dict[str, str], places: Places) -> Dict[str, Optional[str]]:
    """Variables that numerics may depend on; null where a well-known one is unset."""
    found: Dict[str, Optional[str]] = dict.fromkeys(KNOWN_CONTROLS)
    for name, value in environment.items():
        if name in PLACEMENT or not (name in found or name.startswith(CONTROL_PREFIXES)):
            continue
        found[name] = without_secrets(name, places.short_value(value))
    return dict(sorted(found.items()))


TORCH_FLAGS = (
    ("deterministic_algorithms", "are_deterministic_algorithms_enabled()"),
    ("deterministic_warn_only", "is_deterministic_algorithms_warn_only_enabled()"),
    ("fill_uninitialized_memory", "utils.deterministic.fill_uninitialized_memory"),
    ("float32_matmul_precision", "get_float32_matmul_precision()"),
    ("matmul_allow_tf32", "backends.cuda.matmul.allow_tf32"),
    ("matmul_fp32_precision", "backends.cuda.matmul.fp32_precision"),
    ("matmul_fp16_reduced", "backends.cuda.matmul.allow_fp16_reduced_precision_reduction"),
    ("matmul_bf16_reduced", "backends.cuda.matmul.allow_bf16_reduced_precision_reduction"),
    ("matmul_fp16_accumulation", "backends.cuda.matmul.allow_fp16_accumulation"),
    ("blas_library", "backends.cuda.preferred_blas_library()"),
    ("linalg_library", "backends.cuda.preferred_linalg_library()"),
    ("flash_sdp", "backends.cuda.flash_sdp_enabled()"),
    ("mem_efficient_sdp", "backends.cuda.mem_efficient_sdp_enabled()"),
    ("math_sdp", "backends.cuda.math_sdp_enabled()"),
    ("cudnn_sdp", "backends.cuda.cudnn_sdp_enabled()"),
    ("cudnn_enabled", "backends.cudnn.enabled"),
    ("cudnn_deterministic", "backends.cudnn.deterministic"),
    ("cudnn_benchmark", "backends.cudnn.benchmark"),
    ("cudnn_allow_tf32", "backends.cudnn.allow_tf32"),
    ("mkldnn_enabled", "backends.mkldnn.enabled"),
    ("mkldnn_deterministic", "backends.mkldnn.deterministic"),
    ("threads", "get_num_threads()"),
    ("interop_threads", "get_num_interop_threads()"),
    ("default_dtype", "get_default_dtype()"),
    ("flush_denormal", "_C._get_flush_denormal()"),
)

TORCH_REPORTS = (
    ("version", "__version__"),
    ("git_version", "version.git_version"),
    ("cuda", "version.cuda"),
    ("hip", "version.hip"),
    ("cudnn", "backends.cudnn.version()"),
    ("cpu_capability", "backends.cpu.get_cpu_capability()"),
    ("build", "__config__.show()"),
)


def evaluate(root: Any, path: str) -> Any:
    """The value at a dotted path below an object, called where the path ends in ``()``.

    None where this version has no such thing or will not say.
    """
    value = root
    try:
        for name in path.replace("()", "").split("."):
            value = getattr(value, name)
        if path.endswith("()"):
            value = value()
    except Exception:
        return None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def torch_state(table: Iterable[Tuple[str, str]]) -> Optional[Json]:
    """Values that an imported torch reports; None where torch was not imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return {name: evaluate(torch, path) for name, path in table}


# ---- hardware ------------------------------------------------------------------------------


def cpu(text: Optional[str]) -> Json:
    """The processor as ``/proc/cpuinfo`` tells it (x86 and Arm names), and the counts."""
    fields: Dict[str, str] = {}
    for line in (text or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    flags = fields.get("flags") or fields.get("features")
    return {
        "architecture": platform.machine(),
        "vendor": fields.get("vendor_id") or fields.get("cpu implementer"),
        "model_name": fields.get("model name"),
        "family": fields.get("cpu family") or fields.get("cpu architecture"),
        "model": fields.get("model") or fields.get("cpu part"),
        "stepping": fields.get("stepping") or fields.get("cpu revision"),
        "flags": None if flags is None else sorted(set(flags.split())),
        "logical_cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
    }


class Nvml:
    """The few questions to NVIDIA's management library, through ctypes.

    :param library: the loaded library; every function returns 0 on success.
    """

    def __init__(self, library: Any) -> None:
        self.library = library

    def ask(self, name: str, *arguments: Any) -> bool:
        function = getattr(self.library, name, None)
        return function is not None and function(*arguments) == 0

    def text(self, name: str, *arguments: Any) -> Optional[str]:
        buffer = ctypes.create_string_buffer(128)
        answered = self.ask(name, *arguments, buffer, ctypes.c_uint(128))
        return buffer.value.decode("utf-8", "replace") if answered else None

    def numbers(self, name: str, count: int, *arguments: Any) -> Optional[List[int]]:
        values = [ctypes.c_int() for _ in range(count)]
        answered = self.ask(name, *arguments, *[ctypes.byref(value) for value in values])
        return [value.value for value in values] if answered else None

    def mode(self, name: str, device: Any) -> Optional[bool]:
        """The current one of a (current, pending) pair."""
        pair = self.numbers(name, 2, device)
        return None if pair is None else bool(pair[0])

    def device(self, index: int) -> Tuple[Json, Optional[str]]:
        """(identity, UUID) of one GPU."""
        handle = ctypes.c_void_p()
        self.ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        capability = self.numbers("nvmlDeviceGetCudaComputeCapability", 2, handle)
        entry = {
            "name": self.text("nvmlDeviceGetName", handle),
            "compute_capability": capability and "{}.{}".format(*capability),
            "vbios": self.text("nvmlDeviceGetVbiosVersion", handle),
            "mig": self.mode("nvmlDeviceGetMigMode", handle),
            "ecc": self.mode("nvmlDeviceGetEccMode", handle),
        }
        return entry, self.text("nvmlDeviceGetUUID", handle)


def gpus(load: Callable[[str], Any], notes: Notes) -> Tuple[List[Json], Optional[str], List[str]]:
    """(GPUs, driver version, UUIDs) as the management library tells them; empty without it."""
    try:
        nvml = Nvml(load("libnvidia-ml.so.1"))
    except OSError:
        return [], None, []
    if not nvml.ask("nvmlInit_v2"):
        notes.add("libnvidia-ml.so.1", "it is here but does not start")
        return [], None, []
    try:
        count = nvml.numbers("nvmlDeviceGetCount_v2", 1) or [0]
        found = [nvml.device(index) for index in range(count[0])]
        driver = nvml.text("nvmlSystemGetDriverVersion")
    finally:
        nvml.ask("nvmlShutdown")
    return [entry for entry, _ in found], driver, [uuid for _, uuid in found if uuid]


# ---- warm-up: what maps the libraries that a training run would use ---------------------------


def warm_numpy() -> None:
    import numpy

    square = numpy.arange(4096.0).reshape(64, 64) + numpy.eye(64)
    numpy.linalg.svd(square @ square)
    numpy.fft.rfft(square)
    numpy.random.RandomState(0).shuffle(numpy.arange(16))


def warm_torch(device: str) -> None:
    import torch

    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        image = torch.rand(1, 4, 16, 16, device=device).to(dtype).requires_grad_()
        kernel = torch.rand(4, 4, 3, 3, device=device).to(dtype).requires_grad_()
        torch.autograd.backward(torch.nn.functional.conv2d(image, kernel, padding=1).sum())
        heads = torch.rand(1, 2, 32, 64, device=device).to(dtype)
        torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    square = torch.rand(64, 64, device=device)
    torch.linalg.svd(square @ square)
    torch.sort(square)
    torch.fft.rfft(square)


def warm_cuda() -> None:
    import torch

    if torch.cuda.is_available():
        warm_torch("cuda")
        torch.cuda.synchronize()


def warm_up(notes: Notes) -> None:
    steps: Tuple[Tuple[str, Callable[[], None]], ...] = (
        ("numpy", warm_numpy),
        ("torch", lambda: warm_torch("cpu")),
        ("torch on CUDA", warm_cuda),
    )
    for name, step in steps:
        try:
            step()
        except Exception as error:  # a stack may lack any of it: said, and the rest goes on
            notes.add("warm-up: " + name, error)


# ---- the whole -------------------------------------------------------------------------------


def in_milliseconds(start: float) -> int:
    return int((time.time() - start) * 1000)


def software(places: Places, notes: Notes, deep: Deep, warmed: bool, image: bool) -> Json:
    trees = itertools.chain(editable_folders(sys.path), source_folders(TREE_ROOTS if image else ()))
    return {
        "python": python_itself(places, notes),
        "distributions": distributions(sys.path, places, notes, deep),
        "os_packages": os_packages(notes),
        "alternatives": alternatives(notes),
        "compilers": compilers(sys.path, places, notes),
        "libraries": loaded_libraries(places, notes),
        "torch": torch_state(TORCH_REPORTS),
        "warm_up": warmed,
        "git_trees": git_trees(trees, places, notes),
    }


def evidence(uuids: List[str], cpu_text: Optional[str], notes: Notes, started: float) -> Json:
    microcode = re.search(r"^microcode\s*:\s*(\S+)", cpu_text or "", re.M)
    memory = re.search(r"^MemTotal:\s*(\d+)", read_text("/proc/meminfo", notes) or "", re.M)
    return {
        "hostname": socket.gethostname(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "kernel": " ".join(platform.uname()[2:4]),
        "microcode": microcode.group(1) if microcode else None,
        "memory_kib": int(memory.group(1)) if memory else None,
        "gpu_uuids": uuids,
        "prefix": sys.prefix,
        "executable": sys.executable or None,
        "placement": {name: os.environ.get(name) for name in PLACEMENT},
    }


def take(warm: bool = False, deep: Deep = False, image: bool = False) -> Json:
    """The inventory of this process.

    :param warm: first import NumPy and torch and run a little of each.
    :param deep: compare installed files' SHA-256, not only their sizes: all files, or those of
        the named distributions.
    :param image: this is a container, whose whole file system belongs to the stack.
    """
    started = time.time()
    notes = Notes()
    places = Places(sys.prefix)
    if warm:
        warm_up(notes)
    warm_ms, reading = in_milliseconds(started), time.time()
    cpu_text = read_text("/proc/cpuinfo", notes)
    devices, driver, uuids = gpus(ctypes.CDLL, notes)
    report: Json = {
        "schema": SCHEMA,
        "software": software(places, notes, deep, warm, image),
        "controls": {
            "variables": variables(dict(os.environ), places),
            "torch": torch_state(TORCH_FLAGS),
        },
        "hardware": {"cpu": cpu(cpu_text), "gpus": devices, "driver": driver},
        "evidence": evidence(uuids, cpu_text, notes, started),
    }
    report["evidence"]["problems"] = notes.problems
    report["evidence"]["durations_ms"] = {
        "warm_up": warm_ms,
        "reading": in_milliseconds(reading),
    }
    return report


def touched(paths: Iterable[str]) -> Json:
    """What this process has used until now: mapped libraries, imported modules, their owners.

    ``{"libraries": [...], "modules": [top-level names], "distributions": [names],
    "files": [paths of both]}``.
    """
    notes = Notes()
    places = Places(sys.prefix)
    libraries = loaded_libraries(places, notes) or []
    files = set(mapped_files(read_text("/proc/self/maps", notes) or ""))
    files.update(_module_files())
    return {
        "libraries": libraries,
        "modules": sorted({name.split(".")[0] for name in list(sys.modules)}),
        "distributions": sorted(set(owners_of(files, paths, notes).values())),
        "files": sorted(files),
        "problems": notes.problems,
    }


def _module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            yield path


def main(arguments: List[str]) -> int:
    deep = False  # type: Deep
    for item in arguments:
        if item == "--deep":
            deep = True
        elif item.startswith("--deep="):
            deep = frozenset(item[len("--deep=") :].split(","))
        elif item not in ("--warm-up", "--image"):
            usage = "inventory.py [--warm-up] [--deep | --deep=NAME,NAME] [--image]"
            sys.stderr.write(usage + "; not understood: " + item + "\n")
            return 2
    # This file's own folder must lend no module to the stack that is being looked at.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    # Libraries may print while they load; the answer has the standard output to itself.
    sys.stdout.flush()
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    json.dump(take("--warm-up" in arguments, deep, "--image" in arguments), answer)
    answer.write("\n")
    answer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
