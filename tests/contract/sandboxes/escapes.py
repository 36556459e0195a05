"""Attempts to get out of a sandbox, each with what it proves and what we promise of it. The table in docs/sandboxes.md is made of it.

Owns: the attempts, the table (`python -m tests.contract.sandboxes.escapes` prints it). Must not know: how they are run.
Every target is a file, process or socket that the test made, or a change that changes nothing; what would use the machine up is
bounded by itself, so that a sandbox that fails is found out without harm. In the scripts `@NAME@` is put in by `Ground.fill`.
"""

from __future__ import annotations

import sys
from typing import Literal, NamedTuple

Promise = Literal["stopped", "open", "open for root"]
Proof = Literal["leak", "said", "outside", "program", "workspace", "killed", "connected", "outlived"]
"""What shows that it worked: the canary in the output; the word ESCAPED there; a file outside; the program of the sandbox; a file of the workspace that is to be
protected; the canary's end; a connection; a process that is still there afterwards."""


class Escape(NamedTuple):
    name: str
    what: str
    script: str
    proof: Proof
    bubblewrap: Promise = "stopped"
    outside: bool = False
    """Harmless without a sandbox, and works there: so it is tried there, too, which shows that the attempt is a real one."""


def _python(code: str) -> str:
    return f"python3 - <<'END'\nimport ctypes, os, socket, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n{code}\nEND"


def _syscall(number: str, arguments: str) -> str:
    """ESCAPED unless the kernel refuses it for want of rights."""
    return _python(
        f"ok = libc.syscall({number}, {arguments}) >= 0\n"
        "print('ESCAPED' if ok or ctypes.get_errno() not in (1, 38) else 'refused')"
    )


FILES = (
    Escape("read_home_key", "read `~/.ssh` of the user", "cat @HOME@/.ssh/id_rsa", "leak", outside=True),
    Escape("read_cloud_key", "read `~/.aws` through `$HOME`", 'cat "$HOME"/.aws/credentials', "leak", outside=True),
    Escape("read_outside", "read a file beside the workspace", "cat @OUTSIDE@/secret", "leak", outside=True),
    Escape("dot_dot", "read it by a path with `..`", "cat ../outside/secret", "leak", outside=True),
    Escape("symlink", "read it through a link", "ln -s @OUTSIDE@/secret link; cat link", "leak", outside=True),
    Escape("hard_link", "link it into the workspace", "ln @OUTSIDE@/secret hard; cat hard", "leak", outside=True),
    Escape("write_outside", "write beside the workspace", "echo x > @OUTSIDE@/written", "outside", outside=True),
    Escape("rename_out", "move a file out", "echo x > a; mv a @OUTSIDE@/written", "outside", outside=True),
    Escape("bashrc", "write to the user's `.bashrc`", "echo x >> @HOME@/written", "outside", outside=True),
    Escape("tmp_read", "read `/tmp` of others", "cat @TMP@/secret", "leak", outside=True),
    Escape("tmp_write", "write to `/tmp` of others", "mkdir -p @TMP@; echo x > @TMP@/written", "outside", outside=True),
    Escape("var_tmp", "the same in `/var/tmp`", "mkdir -p @VARTMP@; echo x > @VARTMP@/written", "outside", outside=True),
    Escape("shm_write", "leave a file in `/dev/shm`", "mkdir -p @SHM@; echo x > @SHM@/written", "outside", outside=True),
    Escape("etc_shadow", "read password files", "head -c 1 /etc/shadow /etc/gshadow | grep -q . && echo ESCAPED", "said"),
    Escape("system_write", "change programs", "for d in /usr /usr/bin /bin /etc /opt /; do echo x > $d/@MARK@ && echo ESCAPED; done", "said"),
    Escape("remount", "mount the root anew, writable", "mount -o remount,rw / && echo ESCAPED; mount -o remount,rw,bind /usr && echo ESCAPED", "said"),
    Escape("mount", "mount a file system", "mkdir m; mount -t tmpfs none m && echo ESCAPED; mount --bind / m && echo ESCAPED", "said"),
    Escape("unmount", "take a cover away", "umount /proc/sys && echo ESCAPED; umount -l /tmp && echo ESCAPED", "said"),
    Escape("chroot", "change the root", "chroot / /bin/true && echo ESCAPED", "said"),
    Escape("cron", "leave a job for cron", "for d in /var/spool/cron /var/spool/cron/crontabs /etc/cron.d; do echo > $d/@MARK@ && echo ESCAPED; done", "said"),
    Escape("setuid_program", "leave a program with the setuid bit in the workspace", "cp /bin/true s; chmod 4755 s; [ -u s ] && echo ESCAPED", "said", "open", outside=True),
)  # fmt: skip

PROCESSES = (
    Escape("proc_root", "read files through `/proc/PID/root`", "cat /proc/@PID@/root@OUTSIDE@/secret /proc/[0-9]*/root@OUTSIDE@/secret", "leak", outside=True),
    Escape("proc_cwd", "… through `/proc/PID/cwd`", "cat /proc/@PID@/cwd/secret /proc/[0-9]*/cwd/secret", "leak", outside=True),
    Escape("proc_fd", "… through `/proc/PID/fd`", "cat /proc/@PID@/fd/0", "leak", outside=True),
    Escape("proc_environ", "read the environment of other processes", "cat /proc/@PID@/environ", "leak", outside=True),
    Escape("proc_cmdline", "read the command lines of other processes", "cat /proc/[0-9]*/cmdline", "leak", outside=True),
    Escape("own_environment", "find a key in its own environment", "env; cat /proc/1/environ /proc/self/environ", "leak"),
    Escape("inherited_descriptors", "read descriptors that were left open", _python("for fd in range(3, 256):\n    try: print(os.pread(fd, 200, 0))\n    except OSError: pass"), "leak"),
    Escape("kill", "kill a process outside", "kill -9 @PID@", "killed", outside=True),
    Escape("kill_group", "kill its group", "kill -9 -- -@PID@", "killed", outside=True),
    Escape("kill_all", "kill all that can be killed", "trap '' TERM; kill -9 -1", "killed"),
    Escape("ptrace", "attach to a process outside", _python("print('ESCAPED' if libc.ptrace(16, @PID@, 0, 0) == 0 else 'refused')"), "said"),
    Escape("read_memory", "read the memory of other processes", "head -c 1 /proc/@PID@/mem /proc/@PID@/maps > m && echo ESCAPED; grep -q . /proc/@PID@/maps && echo ESCAPED", "said", outside=True),
    Escape("enter", "enter the namespaces of a process outside", "nsenter -t @PID@ -m -- cat @OUTSIDE@/secret", "leak"),
    Escape("daemon", "leave a daemon in a session of its own", "setsid sleep @SECONDS@ >/dev/null 2>&1 & sleep 0.1", "outlived", outside=True),
    Escape("hidden_daemon", "… with an empty environment, twice forked", "(setsid env -i sh -c 'sleep @SECONDS@ & :' >/dev/null 2>&1 &); sleep 0.1", "outlived", outside=True),
    Escape("stop_ignored", "outlive the end by ignoring signals", "(trap '' TERM HUP INT; setsid sleep @SECONDS@ >/dev/null 2>&1 &); sleep 0.1", "outlived", outside=True),
    Escape("overwrite_sandbox", "overwrite the program that makes the sandbox", "echo x > /proc/1/exe; echo x > @BWRAP@", "program"),
)  # fmt: skip

KERNEL = (
    Escape("user_namespace", "make a user namespace, for its capabilities", "unshare -Ur true && echo ESCAPED", "said"),
    Escape("capabilities", "have a capability at all", "grep -E 'Cap(Eff|Prm|Bnd|Amb)' /proc/self/status | grep -vq '0000000000000000$' && echo ESCAPED", "said"),
    Escape("setuid_again", "win rights by a setuid program", "grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED", "said", outside=True),
    Escape("core_pattern", "change settings of the kernel", "for f in core_pattern modprobe hotplug; do v=$(cat /proc/sys/kernel/$f) && echo \"$v\" > /proc/sys/kernel/$f && echo ESCAPED; done", "said"),
    Escape("sysrq", "press the magic key", "echo h > /proc/sysrq-trigger && echo ESCAPED", "said"),
    Escape("sysfs", "reach `/sys`, cgroups with their release agents", "ls /sys/kernel /sys/fs/cgroup && echo ESCAPED", "said", outside=True),
    Escape("kernel_memory", "read the memory of the kernel", "for f in /proc/kcore /dev/mem /dev/kmem /dev/port; do head -c 1 $f | grep -q . && echo ESCAPED; done", "said"),
    Escape("kernel_log", "read the log of the kernel", "timeout 1 head -c 1 /dev/kmsg /proc/kmsg | grep -q . && echo ESCAPED", "said"),
    Escape("disks", "read a disk", "for f in /dev/sda /dev/vda /dev/nvme0n1 /dev/dm-0; do head -c 1 $f > d && echo ESCAPED; done", "said"),
    Escape("device_node", "make a device of one's own", "mknod n b 253 0 && echo ESCAPED; mknod c c 1 1 && echo ESCAPED", "said"),
    Escape("module", "load a module", _syscall("{'x86_64': 175, 'aarch64': 105}[os.uname().machine]", "0, 0, 0"), "said"),
    Escape("bpf", "load a program into the kernel", _syscall("{'x86_64': 321, 'aarch64': 280}[os.uname().machine]", "5, 0, 0"), "said"),
    Escape("clock", "set the clock", 'date -s "@$(date +%s)" && echo ESCAPED', "said"),
    Escape("host_name", "rename the machine", "hostname @MARK@ && echo ESCAPED", "said"),
    Escape("terminal_input", "type into the terminal outside (TIOCSTI)", _python("import fcntl\nfor p in ('/dev/tty', '/proc/self/fd/0', '/proc/self/fd/1'):\n    try:\n        fcntl.ioctl(os.open(p, os.O_RDWR), 0x5412, b'x')\n        print('ESCAPED')\n    except OSError: pass"), "said"),
    Escape("terminal_output", "send control sequences in its output", r"printf '\033]0;x\007' | tr '\033' '!' >/dev/null; printf '\033[2J'; printf 'ESC''APED'", "said", "open", outside=True),
    Escape("keyring", "read keys from the keyring that was inherited", _python("n = {'x86_64': 250, 'aarch64': 219}[os.uname().machine]\nr = {'x86_64': 249, 'aarch64': 218}[os.uname().machine]\nk = libc.syscall(r, b'user', b'@MARK@', None, 0)\nb = ctypes.create_string_buffer(200)\nlibc.syscall(n, 11, k, b, 200)\nprint(b.value.decode())"), "leak", "open", outside=True),
)  # fmt: skip

NETWORK = (
    Escape("loopback", "connect to a server of the machine", _python("socket.create_connection(('127.0.0.1', @PORT@), 2)"), "connected", outside=True),
    Escape("own_address", "… by another address of loopback", _python("socket.create_connection(('127.9.9.9', @PORT@), 2)"), "connected", outside=True),
    Escape("datagram", "ask a name server of the machine", _python("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', @UDP@))"), "connected", outside=True),
    Escape("metadata", "reach the metadata service of a cloud", _python("s = socket.socket()\ns.settimeout(0.3)\ne = s.connect_ex(('169.254.169.254', 80))\nprint('refused' if e == 101 else 'ESCAPED')"), "said"),
    Escape("internet", "send a packet to the internet", _python("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ntry:\n    s.connect(('192.0.2.1', 53))\n    print('ESCAPED')\nexcept OSError: pass"), "said"),
    Escape("packets", "open a raw socket", _python("for f, k in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):\n    try:\n        socket.socket(f, k, 1)\n        print('ESCAPED')\n    except OSError: pass"), "said"),
    Escape("unix_socket", "connect to a socket in a file", _python("socket.socket(socket.AF_UNIX).connect('@SOCKET@')"), "connected", outside=True),
    Escape("abstract_socket", "connect to an abstract socket", _python("socket.socket(socket.AF_UNIX).connect('\\0@MARK@')"), "connected", outside=True),
    Escape("service_sockets", "find the sockets of Docker, D-Bus and others", "find /run /var/run /tmp -type s 2>/dev/null | grep -q . && echo ESCAPED", "said"),
)  # fmt: skip

LATER = (
    Escape("git_hook", "leave a git hook", "echo x > .git/hooks/pre-commit", "workspace", outside=True),
    Escape("git_hook_moved", "put another folder in the place of the hooks", "mv .git/hooks h; mkdir .git/hooks; echo x > .git/hooks/pre-commit", "workspace", outside=True),
    Escape("git_moved", "put another folder in the place of `.git`", "mv .git g; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", "workspace", outside=True),
    Escape("git_config", "set a program in the git settings", "echo x > .git/config; rm -f .git/config; echo x > .git/config", "workspace", outside=True),
    Escape("git_common", "send git to other settings by `.git/commondir`", "echo ../evil > .git/commondir; [ -s .git/commondir ] && echo ESCAPED", "said", "open", outside=True),
    Escape("git_nested", "make a repository with hooks in a folder of the workspace", "mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/pre-commit && echo ESCAPED", "said", "open", outside=True),
    Escape("own_files", "write to `.loopwright/`, with permissions and store", "echo x > .loopwright/permissions.toml", "workspace", outside=True),
    Escape("own_files_moved", "put another folder in its place", "mv .loopwright l; mkdir .loopwright; echo x > .loopwright/permissions.toml", "workspace", outside=True),
    Escape("build_files", "change what people run in the workspace, such as a Makefile", "echo x > Makefile && echo ESCAPED", "said", "open", outside=True),
)  # fmt: skip

USE = (
    Escape("fork_bomb", "start more processes than allowed", "for i in $(seq 60); do sleep 9 & done 2>/dev/null; sleep 0.1; [ $(ls -d /proc/[0-9]* | wc -l) -gt 55 ] && echo ESCAPED", "said", "open for root"),
    Escape("memory", "take more memory than one process may", _python("bytearray(400 << 20)\nprint('ESCAPED')"), "said"),
    Escape("memory_together", "… in several processes", _python("held = b''\nfor _ in range(3):\n    ours, theirs = os.pipe()\n    if not os.fork():\n        kept = bytearray(100 << 20)\n        os.write(theirs, b'1')\n        libc.pause()\n    os.close(theirs)\n    held += os.read(ours, 1)\nprint('ESCAPED' if held == b'111' else held)"), "said", "open"),
    Escape("large_file", "write a file larger than allowed", "head -c 3000000 /dev/zero > big; [ $(stat -c %s big) -gt 2000000 ] && echo ESCAPED", "said"),
    Escape("many_files", "fill the disk with many files", "for i in 1 2 3 4 5; do head -c 900000 /dev/zero > f$i; done; [ $(cat f? | wc -c) -gt 4000000 ] && echo ESCAPED", "said", "open"),
    Escape("tmp_full", "fill the memory through `/tmp`", "for i in 1 2 3; do head -c 900000 /dev/zero > /tmp/@MARK@$i; done; [ $(cat /tmp/@MARK@? | wc -c) -gt 2000000 ] && echo ESCAPED", "said"),
    Escape("shm_full", "… through `/dev/shm`, `/dev`, the home folder", "for d in /dev/shm /dev \"$HOME\"; do for i in 1 2 3; do head -c 900000 /dev/zero > $d/@MARK@$i; done; [ $(cat $d/@MARK@? | wc -c) -gt 2000000 ] && echo ESCAPED; done", "said"),
    Escape("open_files", "hold more files than allowed", _python("held = [os.dup(1) for _ in range(200)]\nprint('ESCAPED')"), "said"),
    Escape("raise_limits", "raise the limits again", "ulimit -f unlimited && echo ESCAPED; ulimit -n 4096 && echo ESCAPED; ulimit -d unlimited && echo ESCAPED", "said"),
)  # fmt: skip

ESCAPES = (*FILES, *PROCESSES, *KERNEL, *NETWORK, *LATER, *USE)
GROUPS = {
    "Files": FILES,
    "Processes": PROCESSES,
    "The kernel": KERNEL,
    "The network": NETWORK,
    "What is run later, outside": LATER,
    "Using the machine up": USE,
}
WORDS = {"stopped": "stopped", "open": "**not stopped**", "open for root": "stopped; **not** when root starts it"}


def table() -> str:
    """What docs/sandboxes.md shows."""
    lines = ["| a command tries to | bubblewrap |", "| --- | --- |"]
    for title, escapes in GROUPS.items():
        lines.append(f"| *{title}* | |")
        lines += [f"| {one.what} | {WORDS[one.bubblewrap]} |" for one in escapes]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
