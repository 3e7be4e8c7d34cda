#pragma once
// What stands here for a process that an agent has started on its host: what comes from there, and
// the Process that a launcher sees of it.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "muster/base/process.h"
#include "muster/base/unique_fd.h"
#include "muster/cluster/messages.h"
#include "muster/net/loop.h"

namespace muster::cluster {

// On the loop's thread, but for over().
class StandIn : public std::enable_shared_from_this<StandIn> {
 public:
  struct Made {
    std::shared_ptr<StandIn> stand_in;
    std::unique_ptr<Process> process;  // thread-safe
  };
  // `kill`: of the process there, on any thread.
  static Result<Made> create(net::Loop& loop, std::function<void()> kill);

  void take_output(bool is_error, const Bytes& text);
  void take_end(const ProcessEnd& end);  // the first counts
  std::optional<ProcessEnd> over() const;

 private:
  struct Stream {
    UniqueFd fd;          // of a pair, whose other end the Process has
    std::string pending;  // what has not fitted into it yet
  };
  StandIn(net::Loop& loop, UniqueFd output, UniqueFd error, UniqueFd end);
  static bool send(Stream& stream);
  void flush();

  net::Loop& loop_;
  Stream output_, error_;
  UniqueFd end_fd_;
  std::optional<ProcessEnd> end_;
  net::Registration retry_;
  mutable std::mutex mutex_;
  std::optional<ProcessEnd> over_;  // end_, once all that was written has been handed over
};

}  // namespace muster::cluster
