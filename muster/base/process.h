#pragma once
// The seam to other processes: start, signal, learn how they ended.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/files.h"

namespace muster {

struct ProcessSpec {
  std::vector<std::string> command;  // command[0]: path of the program, or its name in the PATH
  std::map<std::string, std::string> environment;  // added to the parent's
  Path folder;                                     // empty: the parent's
  std::vector<int> cores;                          // pinned to these; empty: free
  // Signals that wait until the program releases them, so that none comes before it listens.
  std::vector<int> held_signals = {};
  // What it reads from its standard input, which ends no sooner than the child or its Process: whom
  // it stands for learns from that end that nobody is left here. None: an empty input. At most 48
  // KiB. Nobody else on this host can see it.
  std::optional<std::string> input = {};
};

// What this process was started with as held arrives from now on, what has waited at once. In the
// calling thread.
void release_signals(const std::vector<int>& numbers);

// Blocks until this one, with which this process was started as held, arrives or has arrived. It
// stays held.
void wait_for_signal(int number);

struct ProcessEnd {
  std::optional<int> exit_status;  // of exit()
  std::optional<int> signal;       // that killed it
  std::uint64_t peak_memory = 0;   // bytes: the most that it had resident at once
};
std::string describe(const ProcessEnd& end);  // "exit status 3", "killed by SIGKILL"

// A child whose standard output and error arrive through one pipe each. It
// leads a process group of its own; when it has ended, what it left running in that group is
// killed. Thread-safe.
class Process {
 public:
  virtual ~Process() = default;  // kills and reaps a child that still runs
  virtual int pid() const noexcept = 0;
  // Readable when the child has ended (pidfd), and when it has written: for an event loop.
  virtual int end_fd() const noexcept = 0;
  virtual int output_fd() const noexcept = 0;
  virtual int error_fd() const noexcept = 0;
  virtual Status signal(int number) = 0;         // to the child and its own group
  virtual std::optional<ProcessEnd> poll() = 0;  // reaps; nothing while it runs
};

// "its process is stopped (SIGSTOP)": for a person who wonders why it does not answer.
std::string describe_process(int pid, Files& files = system_files());
// The same of a thread of this process: "it is held by a debugger".
std::string describe_thread(int thread, Files& files = system_files());

// Whether the system is ending this process: SIGKILL has come, or it exits and has yet to be
// reaped. It closes its files on that way, so others may learn of its end long before its parent
// does. False of one that is not there.
bool is_ending(int pid, Files& files = system_files());

// The file of this process's program; empty where the system does not say.
Path this_program();

// This process goes on as another program, with the same number, parent, variables and files.
// Returns only where that failed: kNotFound where there is no such program.
Error become_program(std::vector<std::string> command);

// To any process. kNotFound: there is none; kInvalid: it is somebody else's.
Status send_signal(int pid, int number);

class Processes {
 public:
  virtual ~Processes() = default;
  // The child is killed when the thread that called this ends, or its process (PR_SET_PDEATHSIG):
  // call it on a thread that outlives the children. Errors: kNotFound where there is no such
  // program, or no interpreter that it names, and only then; else kUnavailable, kInvalid.
  virtual Result<std::unique_ptr<Process>> spawn(const ProcessSpec& spec) = 0;
};
Processes& system_processes() noexcept;

}  // namespace muster
