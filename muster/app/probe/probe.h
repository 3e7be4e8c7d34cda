#pragma once
// Asks the world around a job: whether this host is wanted back, how many workers there should be.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/base/result.h"

namespace muster::app {

// Where to ask; of what is empty nothing is asked.
struct ProbeSpec {
  std::string file;                          // its text, once it is there
  std::string command;                       // for the shell: what it prints where it ends with 0
  std::string url;                           // http://…: the body where the status is 200
  Duration limit = std::chrono::seconds(5);  // of one question
  bool empty() const noexcept { return file.empty() && command.empty() && url.empty(); }
};

enum class Asked : std::uint8_t { kFile, kCommand, kAddress };

// An answer, without white space around it, and who gave it: "file /x", "command", "http://…".
struct Answer {
  std::string text;
  std::string from;
  Asked asked = Asked::kFile;
};

// Asks again and again, on a thread of its own. What cannot be asked is logged once and asked
// again.
class Probe {
 public:
  // `on_answer` runs on the probe's thread for each answer; none while nobody answers.
  Probe(ProbeSpec spec, Duration every, std::function<void(const Answer&)> on_answer,
        Processes& processes, Files& files, Logger log);
  ~Probe();  // stops at once
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

 private:
  void ask_all(const std::stop_token& stop);
  void take(const Result<std::optional<std::string>>& answer, Asked asked, const std::string& from);
  Result<std::optional<std::string>> run_command(const std::stop_token& stop);
  Result<std::optional<std::string>> get(const std::stop_token& stop);

  const ProbeSpec spec_;
  const std::function<void(const Answer&)> on_answer_;
  Processes& processes_;
  Files& files_;
  const Logger log_;
  std::string complained_;  // the last error that was logged
  std::jthread thread_;     // last: uses the others
};

}  // namespace muster::app
