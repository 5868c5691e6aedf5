# SPDX-License-Identifier: Apache-2.0
"""A small client of allotd's protocol, written down by hand from src/wire/wire.h.

The sizes are compared with the compiler's by test_wire_sizes.  Nothing here knows what allotd
should answer: it only packs, sends, receives and unpacks.
"""
import array
import collections
import socket
import struct

MAGIC = 0x544F4C41
VERSION = 2
HEADER = struct.Struct("<IHHII")
UNKNOWN = 2**64 - 1
GIB = 1 << 30
MIB = 1 << 20
MAX_GPUS = 16


def message(name, number, fmt, fields):
    """fields: names in the order of the format; '_' is padding that is named in C"""
    return name, number, struct.Struct("<" + fmt), fields.split()


AMOUNT = "QII"
LAYOUTS = [
    message("OK", 1, "Q", "value"),
    message("ERROR", 2, "II512s", "code version text"),
    message("END", 3, "Q", "count"),
    message("ATTACH", 10, "IIII", "role flags stream _"),
    message("ATTACHED", 11, "QIIIIQ1024s64s1024s",
            "job_id n_gpus fail_policy fresh_page _ grace_ns driver_dir job_name gpus"),
    message("NEED", 12, "IIQII", "slot kind bytes flags _"),
    message("GRANT", 13, "IIQQQQQ512s",
            "result _ bytes credit_bytes used_bytes limit_bytes waited_ns text"),
    message("CONTEXT_DONE", 14, "II", "slot ok"),
    message("CONTEXT_SETTLED", 15, "IIQQQ", "keep _ cost_bytes used_bytes limit_bytes"),
    message("SETTLE", 16, "II", "slot _"),
    message("VIEW", 17, "II", "slot _"),
    message("VIEWED", 18, "QQQQ", "total_bytes free_bytes used_bytes limit_bytes"),
    message("PROCS", 19, "II", "slot _"),
    message("PROC", 20, "iIQ", "pid flags used_bytes"),
    message("SHARE_OUT", 21, "QQQII", "key key2 bytes slot flags"),
    message("SHARE_IN", 22, "QQQ", "key key2 bytes"),
    message("SHARE_CLOSE", 23, "QQII", "key key2 flags _"),
    message("SHARE_FREED", 24, "QQQII", "key key2 bytes flags _"),
    message("SHARE_KNOWN", 25, "IIQ", "known slot bytes"),
    message("OVERDRAFT_DONE", 40, "IIQ", "slot _ kept_bytes"),
    message("RUN", 30, AMOUNT + AMOUNT + "IIIIQQIIIIQ64s512s256s1024s",
            "request request_permille _ limit limit_permille _ job_class fail_policy "
            "when_full_wait n_gpus when_full_ns admit_wait_ns compute_min compute_max flags _ "
            "job_id name gpu command log"),
    message("WAITING", 31, "QIIQQ512s", "job_id position _ needed_bytes free_bytes text"),
    message("ADMITTED", 32, "QIIQQIIQII64s256s",
            "job_id n_gpus system_gpus request_bytes limit_bytes has_limit nested kill_grace_ns "
            "mig_gpus _ name gpus"),
    message("STARTED", 33, "iI", "pid _"),
    message("KEEP", 34, "Q", "process"),
    message("DROP", 35, "Q", "process"),
    message("RESUME", 36, "QIIII", "job_id n_pages ended status _"),
    message("KEPT", 37, "Q", "process"),
    message("ENDED", 38, "II", "status _"),
    message("SIGNAL", 39, "IIQ", "signal _ grace_ns"),
    message("PS", 50, "II", "flags _"),
    message("PS_ITEM", 51, "Q16sIiIIIIQQQQQQIIII64s256s512s",
            "job_id gpu gpu_index pid uid job_class state flags vram_used_bytes "
            "vram_request_bytes vram_limit_bytes drift_bytes waiting_bytes waiting_ns "
            "compute_min compute_max compute_got _ name command reason"),
    message("STATUS", 52, "II", "flags _"),
    message("STATUS_ITEM", 53, "16sIIQQQQQQQQQQIIIIQIIIIIIQ512s16s64s",
            "gpu gpu_index flags vram_total_bytes vram_used_bytes vram_allocatable_bytes "
            "vram_requested_bytes vram_limits_bytes vram_unmanaged_bytes vram_held_bytes "
            "vram_drift_bytes vram_grantable_bytes vram_burst_bytes utilization_pct "
            "temperature_c power_mw waiting sample_age_ns n_jobs mig_index gi ci "
            "n_unmanaged _ n_unmanaged_ended jobs pci_bus_id model"),
    message("SET", 54, "Q32s128s", "job_id key value"),
    message("CANCEL", 55, "QII", "job_id signal _"),
    message("DAEMON", 56, "II", "flags _"),
    message("DAEMON_INFO", 57, "iIIIIIIIQ32s80s1024s1024s1024s512s512sII512s",
            "pid uid system simulated n_gpus n_jobs n_clients nvml_ok uptime_ns version "
            "driver_version driver_dir state_dir socket trouble claim has_cgroups _ cgroups"),
    message("ADOPT", 58, AMOUNT + AMOUNT + "Ii64s",
            "request request_permille _ limit limit_permille _ job_class pid name"),
    message("ADOPTED", 59, "QQIIII64s256s256s",
            "job_id held_bytes n_processes n_gpus mig_gpus _ name command gpus"),
    message("CONFIG", 70, "II", "flags _"),
    message("CONFIG_ITEM", 71, "128s2304s64s1024s512sIIII",
            "key value usual file note line source flags _"),
    message("RELOAD", 72, "II", "flags _"),
    message("RELOADED", 73, "II512s", "kind _ text"),
    message("SHOW", 60, "Q", "job_id"),
    message("JOB", 61, "QQIIiIIIQIIQQQIIQIIQII64s256s1024s1024s512s1024s",
            "job_id parent_id uid state keeper_pid job_class fail_policy when_full_wait "
            "when_full_ns flags status queued_s started_s ended_s n_processes n_gpus request "
            "request_permille _ limit limit_permille _ name command log cgroup reason gpus"),
    message("WHY", 62, "Q", "job_id"),
    message("WHY_ITEM", 63, "QIi16sIIIIQQQQQQQQQII512s1536s",
            "job_id kind pid gpu gpu_index flags position waiting needed_bytes free_bytes "
            "since_ns left_ns total_bytes allocatable_bytes reserve_bytes unmanaged_bytes "
            "before_id n_holders mig_index sentence holders"),
    message("WAIT", 65, "Q", "job_id"),
]
BY_NAME = {m[0]: m for m in LAYOUTS}
BY_NUMBER = {m[1]: m for m in LAYOUTS}
RAW_FIELDS = {"gpus", "gpu", "jobs"}

Message = collections.namedtuple("Message", "type id body fds")


def pack(name, request_id=0, /, **values):
    _, number, layout, fields = BY_NAME[name]
    row = []
    for field in fields:
        value = values.pop(field, None) if field != "_" else 0
        row.append(value)
    if values:
        raise KeyError(f"{name} has no {', '.join(values)}")
    # what was left out is zero, of the kind that its place in the format wants
    zero = layout.unpack(bytes(layout.size))
    row = [z if v is None else v.encode() if isinstance(v, str) else v
           for v, z in zip(row, zero)]
    payload = layout.pack(*row)
    return HEADER.pack(MAGIC, VERSION, number, len(payload), request_id) + payload


def unpack(data):
    magic, version, number, length, request_id = HEADER.unpack_from(data)
    assert magic == MAGIC and version == VERSION and length == len(data) - HEADER.size
    name, _, layout, fields = BY_NUMBER[number]
    body = {}
    for field, value in zip(fields, layout.unpack_from(data, HEADER.size)):
        if field == "_":
            continue
        if isinstance(value, bytes) and not (field in RAW_FIELDS and name != "RUN"):
            value = value.split(b"\0", 1)[0].decode()
        body[field] = value
    return name, request_id, body


class Closed(Exception):
    """the other side ended the connection"""


class Conn:
    def __init__(self, path, timeout=5.0):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.connect(path)  # blocks while the backlog is full
        self.sock.settimeout(timeout)
        self.last_id = 0

    def send(self, name, /, fds=(), **values):
        self.last_id += 1
        self.send_raw(pack(name, self.last_id, **values), fds)
        return self.last_id

    def send_raw(self, data, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.sock.sendmsg([data], control)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed() from None

    def recv(self, timeout=5.0):
        """the next message; TimeoutError, Closed"""
        self.sock.settimeout(timeout)
        try:
            data, control, _, _ = self.sock.recvmsg(8192, socket.CMSG_SPACE(16))
        except ConnectionResetError:
            raise Closed() from None
        if not data:
            raise Closed()
        fds = array.array("i")
        for level, kind, raw in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(raw[:len(raw) - len(raw) % fds.itemsize])
        return Message(*unpack(data), list(fds))

    def call(self, name, /, timeout=5.0, fds=(), **values):
        """one request, one answer"""
        request_id = self.send(name, fds, **values)
        answer = self.recv(timeout)
        assert answer.id == request_id, (answer, request_id)
        return answer

    def list(self, name, item, /, **values):
        """one request, a list of bodies"""
        self.send(name, **values)
        items = []
        while True:
            m = self.recv()
            if m.type == "END":
                assert m.body["count"] == len(items)
                return items
            assert m.type == item, m
            items.append(m.body)

    def close(self):
        self.sock.close()
