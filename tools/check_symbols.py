#!/usr/bin/env python3
"""Nothing touches the operating system but through the seams (Clock, Network, Files, Random,
Process), and some habits stay out altogether.

usage: tools/check_symbols.py [ROOT]
"""

import re

from sources import ROOT, SYSTEM_HEADER, arguments, code_only, cpp_files, finish, is_test, root_of

CHILD = {"muster/base/process.cc": "is the system's Processes",
         "muster/base/process_child.cc": "runs between fork and exec"}

STACKS = {"muster/base/stacks.cc": "asks each thread by a signal where it stands"}

SEGMENTS = {"muster/comm/backend/native/shared_memory.cc": "is the native engine's seam to the system",
            "muster/base/shared_page.cc": "shares memory with another process"}
PEERS = {"muster/comm/backend/native/peer_memory.cc": "reads tensors where they lie in other processes"}
SCRATCH = {"muster/base/scratch_memory.cc": "keeps memory on a disk"}
PROGRAMS = {"muster/cli/program": "is main()", "muster/app/worker/program": "is main()"}

# Who may include the system's own headers: without them its functions are not declared, however they are called.
SYSTEM_HEADERS = {
    **CHILD, **STACKS, **SEGMENTS, **PEERS, **SCRATCH, **PROGRAMS,
    "muster/base/files.cc": "is the system's Files",
    "muster/base/shared_library.cc": "is the system's loader",
    "muster/base/text_width.cc": "asks for a locale of its own how wide letters are",
    "muster/base/unique_fd.h": "closes what a seam has opened",
    "muster/base/process_child.h": "sets of cores and signals",
    "muster/net/loop.cc": "is the system's Loop",
    "muster/net/network.cc": "is the system's Network",
    "muster/net/socket_options.h": "sets what its sockets have",
    "muster/net/plain_stream.cc": "likewise",
    "muster/net/socket_connection.cc": "likewise",
    "muster/net/tls_stream.cc": "likewise",
    "muster/cluster/environment.cc": "says where a worker runs",
    "muster/cluster/share_cores.cc": "asks which cores there are to share out",
    "muster/cluster/launchers/agents/stand_in.cc": "has a pipe that raises no signal",
    "muster/observe/sinks/console/terminal.cc": "is the system's Terminal",
    "muster/app/gather/gather.cc": "has a pipe to its own program",
    "muster/app/rendezvous/join.cc": "asks who its parent is",
    "muster/app/serve/http_server.cc": "sets an option of a library's socket",
    "muster/cli/started_train.cc": "asks who its parent is",
    "muster/cli/worker_command.cc": "reads standard input",
}

# Files to which no row applies: a seam over many things at once.
WHOLE = {"muster/cli/system_machine.cc": "is the system's Machine, which muster doctor probes"}

# (what, pattern, use instead, {file or folder: why it may})
BANNED = (
    ("time", r"\b(steady|system|high_resolution|utc|tai|gps|file)_clock::now\b"
             r"|\b(gettimeofday|clock_gettime|timespec_get|ftime|localtime(_r)?|mktime|tzset)\s*\("
             r"|(?<![\w>.])(std::|::)clock\s*\(|(?<![\w.>])(std::|::)?time\s*\(\s*(0|NULL|nullptr|&)",
     "muster::Clock", {"muster/base/clock.cc": "is the system's Clock", **STACKS}),
    ("the system's clock", r"(?<!= )(?<!= &)\bsystem_clock\(\)|= &?system_clock\(\)(?![,;)])", "the Clock that is passed in",
     {"muster/app": "puts things together", "muster/cli": "likewise", "muster/base/clock.h": "declares it",
      "muster/base/clock.cc": "is the system's Clock", **STACKS}),
    ("wait", r"(\.|->)wait_for\s*\("
             r"|(?<!clock)(?<!clock_)(?<!clock\(\))(\.|->)wait_until\s*\((?!clock)",
     "Clock::wait_until, or Awaited", {"muster/base/clock.cc": "is the system's Clock"}),
    ("poll", r"(?<![\w>.])::(poll|ppoll|select|pselect|epoll_wait)\s*\(",
     "a watch of the event loop",
     {"muster/base/files.cc": "waits for what comes through a pipe", **CHILD,
      "muster/net/loop.cc": "is the system's Loop",
      "muster/comm/backend/native/shared_memory.cc": "asks whether a process has ended",
      "muster/cli/program": "asks whether somebody still reads"}),
    ("sleep", r"\b(sleep_for|sleep_until|usleep|nanosleep|clock_nanosleep|timerfd_create|timer_create|setitimer)\b"
              r"|(?<![\w>.])::(sleep|alarm|pause)\s*\(",
     "Clock::wait_until or a timer of the event loop", {"muster/base/clock.cc": "is the system's Clock"}),
    ("entropy", r"\b(random_device|mt19937(_64)?|default_random_engine|minstd_rand0?|ranlux\w+|knuth_b|srand|srandom"
                r"|[delmnj]rand48|getrandom|getentropy|arc4random\w*|RAND_bytes)\b|(?<![\w>.])::random\s*\(|(?<![\w.>])(std::|::)?rand\s*\(",
     "RandomStream or Entropy", {"muster/base/random.cc": "is the system's Entropy",
      "muster/net/credentials.cc": "certificates come from OpenSSL's own generator"}),
    ("sockets", r"(?<![\w>.])::(socket|bind|listen|accept4?|connect|send|sendmsg|recv|recvmsg|getaddrinfo)\s*\(",
     "muster::net::Network", {"muster/net/plain_stream.cc": "is the system's Network",
      "muster/net/tls_stream.cc": "is the system's Network, encrypted",
      "muster/cluster/launchers/agents/stand_in.cc": "has a pipe that raises no signal"}),
    ("files", r"(?<![\w>.:])(std::)?(fopen|freopen|tmpfile|mkstemp|mkdtemp)\s*\(|\bstd::(basic_)?[io]?fstream\b"
              r"|(?<![\w>.])::(open|openat|creat|unlink(at)?|rename(at2?)?|mkdir(at)?|rmdir|fsync|fdatasync|pread|pwrite|[lf]?stat|fstatat"
              r"|f?statvfs|f?access|faccessat|f?truncate|f?chmod|f?chown|umask|f?chdir|link(at)?|symlink(at)?|readlink(at)?"
              r"|utimes|utimensat|futimens|flock|lockf|mkfifo|glob|wordexp|n?ftw)\s*\("
              r"|\bstd::(rename|tmpnam)\s*\(|\bstd::remove\s*\([^,]*\)\s*[;!=)]|(?<![\w>.])(::)?(getcwd|get_current_dir_name|realpath|f?dopendir|opendir|scandir)\s*\("
              r"|\b(fs|filesystem)::(remove|remove_all|rename|exists|create_director\w+|copy\w*|file_size|directory_iterator"
              r"|recursive_directory_iterator|directory_entry|is_\w+|resize_file|temp_directory_path|current_path|space|create_\w*link"
              r"|absolute|(weakly_)?canonical|relative|proximate|equivalent|(symlink_)?status|read_symlink|last_write_time"
              r"|permissions|hard_link_count)\b",
     "muster::Files", {"muster/base/files.cc": "is the system's Files", **SEGMENTS, **SCRATCH, **CHILD, **PROGRAMS}),
    ("shared memory", r"\b(shm_open|shm_unlink|memfd_create)\b|(?<![\w>.:])(::)?mmap\s*\(",
     "the native engine's segment, or SharedPage", {"muster/base/files.cc": "maps files for reading", **SEGMENTS, **SCRATCH}),
    ("another process's memory", r"\bprocess_vm_(readv|writev)\b|(?<![\w>.])(::)?ptrace\s*\(", "PeerMemory", PEERS),
    ("processes", r"(?<![\w>.])(::)?(v?fork\s*\(\s*\)|(execve?|execvpe?|posix_spawnp?|waitpid|waitid|popen)\s*\()"
                  r"|(?<![\w>.:])(std::)?system\s*\(|(?<![\w>.])::(kill|killpg|raise)\s*\(",
     "muster::Processes", CHILD),
    ("environment", r"(?<![\w>.])(std::|::)?(getenv|secure_getenv|setenv|putenv|unsetenv|clearenv|setlocale)\s*\(|\benviron\b",
     "what main() passes in",
     {"muster/base/process.cc": "hands the environment on",
      "muster/cluster/variables.cc": "reads the launcher's variables", **PROGRAMS}),
    ("signals", r"(?<![\w>.])(std::|::)?(sigaction|signal)\s*\(\s*SIG|\bsigprocmask\s*\(",
     "the signal set of the event loop", {**CHILD, **STACKS,
      "muster/cli/program": "a training outlives whoever read its output, and names what is too large",
      "muster/app/worker/program": "likewise"}),
    ("terminal", r"(?<![\w>.])(::)?(isatty|ttyname|tcgetattr|tcsetattr|ioctl)\s*\(", "observe's Terminal",
     {"muster/observe/sinks/console/terminal.cc": "is the system's Terminal", **PROGRAMS}),
    ("machine", r"(?<![\w>.])(::)?(sched_[gs]etaffinity|gethostname|uname|sysconf|sysinfo|getrusage|setrlimit|getrlimit"
                r"|prctl|getpwuid(_r)?|getpwnam(_r)?|getlogin(_r)?|get_nprocs(_conf)?|getloadavg)\s*\(|\bhardware_concurrency\b",
     "a fact that is passed in, or Machine",
     {"muster/cluster/share_cores.cc": "asks which cores there are to share out",
      "muster/cluster/environment.cc": "says where a worker runs", **SEGMENTS, **CHILD, **PROGRAMS}),
    ("exit", r"(?<![\w>.])(std::|::)(exit|_exit|quick_exit|_Exit|abort|terminate)\s*\(",
     "a Status that main() turns into an exit code",
     {**CHILD, "muster/app/worker/program/main/main.cc": "is main(), and leaves out what takes long for nothing"}),
    ("assert", r"(?<![\w>.])assert\s*\(|#\s*include\s*<cassert>", "MUSTER_CHECK", {}),
    ("feature switch", r"^\s*#\s*(if|ifdef|ifndef|elif)\b(?! defined\(__x86_64__\))",
     "a leaf, or a no_x.cc twin", {"muster/base/check.h": "MUSTER_DCHECK follows the build type"}),
    ("the system's headers", r"#\s*include\s*<" + SYSTEM_HEADER + ">",
     "the seam that has it", SYSTEM_HEADERS),
    ("system calls", r"(?<![\w>.])(::)?syscall\s*\(", "the seam that has it",
     {"muster/base/process.cc": "waits for a process by its descriptor", **STACKS, **SEGMENTS}),
    ("thread left alone", r"\bthread\w*\.detach\s*\(", "a thread that its owner joins",
     {"muster/observe/queued_sink.cc": "a thread stuck in a write past its deadline; it owns its data",
      "muster/checkpoint/async_saver.cc": "likewise in a save on a disk that hangs",
      "muster/data/batch_stream.cc": "likewise in a read of one",
      "muster/observe/sinks/mlflow/mlflow.cc": "likewise in a request, as where a name is looked up",
      "muster/comm/engine/engine_communicator.cc": "the last reference may go in the thread itself"}),
    ("C output", r"(?<![\w>.])(std::)?(printf|puts|putchar)\s*\(|\bstd::(cout|cerr|clog)\b",
     "observe, or the log", PROGRAMS),
)
# In any text, comments included.
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def allowed(path, places):
    return any(str(path) == place or str(path).startswith(place + "/") for place in places)


def file_problems(root, path):
    text = (root / path).read_text()
    for number, line in enumerate(text.splitlines(), 1):
        if LEFTOVERS.search(line):
            yield f"{path}:{number}: {LEFTOVERS.search(line).group()}: finish it or open an issue"
    if is_test(path):
        return
    for number, line in enumerate(code_only(text).splitlines(), 1):
        for what, pattern, instead, places in BANNED:
            found = re.search(pattern, line)
            if found and not allowed(path, places | WHOLE):
                yield f"{path}:{number}: {what}: '{found.group().strip()}': use {instead}"


def main():
    root = root_of(arguments(__doc__))
    files = cpp_files(root)
    finish("symbols", [p for path in files for p in file_problems(root, path)], len(files))


if __name__ == "__main__":
    main()
