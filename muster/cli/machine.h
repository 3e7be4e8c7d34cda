#pragma once
// The seam through which commands look at the machine. Tests pass one that lacks things.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/app/engines/try_engines.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/comm/cost.h"
#include "muster/comm/engine/time_link.h"

namespace muster::cli {

struct MemoryFacts {
  std::uint64_t total = 0;      // of the machine or of the container, the smaller
  std::uint64_t available = 0;  // now
};

// By which other hosts reach this one.
struct HostAddress {
  std::string text;
  std::string interface;
};

// Whether a program is to go on that has printed its first line. Nothing: it is another line than
// was expected, and all that the program prints will say why.
using GoesOn = std::function<std::optional<bool>(const std::string& line)>;

class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::string host() = 0;
  virtual double cores() = 0;  // that this process may use: affinity and container quota
  virtual MemoryFacts memory() = 0;
  virtual std::vector<std::string> instruction_sets() = 0;  // "avx2", "avx512", …
  virtual std::uint64_t open_file_limit() = 0;
  virtual std::optional<std::uint64_t> file_size_limit() = 0;  // bytes; nothing: there is none
  virtual std::vector<app::EngineTrial> try_engines() = 0;
  virtual Result<comm::MeasuredLink> measure_link(comm::Wire wire) = 0;  // app/engines
  virtual Status bind_loopback() = 0;                                    // a TCP port on 127.0.0.1
  virtual Status bind_everywhere(std::uint16_t port) = 0;                // on all interfaces
  virtual std::vector<HostAddress> addresses() = 0;  // that of the way out first
  virtual Status create_shared_memory() = 0;         // memfd, mapped and written
  virtual Result<std::uint64_t> free_space(const Path& folder) = 0;
  virtual Path temporary_folder() = 0;                   // for what goes with its maker
  virtual Path folder() = 0;                             // in which this process was started
  virtual Status write_in(const Path& folder) = 0;       // creates and removes a file
  virtual bool can_be_started(const Path& program) = 0;  // a file that somebody may execute
  virtual bool is_regular_file(const Path& path) = 0;    // neither a folder nor a pipe
  virtual bool is_same_file(const Path& one, const Path& other) = 0;  // both are there
  virtual std::optional<Path> behind_link(const Path& link) = 0;      // nothing: it is none
  virtual std::optional<bool> clock_is_synchronised() = 0;  // nothing: the system does not say
  // What a program prints on standard output. Where it does not end well, that is the error, with
  // the code that its exit code stands for (exit_code.h); kTimeout where it does not end in time.
  virtual Result<std::string> output_of(const std::vector<std::string>& command,
                                        std::chrono::milliseconds limit) = 0;
  // The same of a program that waits after its first line until SIGUSR1 says that it may go on
  // (wait_for_signal() of base/process.h): what it prints from there on, or all
  // of it. If it is not to, it is killed, and the line is all. `limit`: of the line, and again of
  // what follows.
  virtual Result<std::string> output_in_two(const std::vector<std::string>& command,
                                            std::chrono::milliseconds limit,
                                            const GoesOn& goes_on) = 0;
};

// The machine that this process runs on. Lives as long as the process.
Machine& system_machine() noexcept;

}  // namespace muster::cli
