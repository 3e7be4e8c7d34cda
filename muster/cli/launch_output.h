#pragma once
// What becomes of the lines that the processes of `muster launch` write: shown, in a file each, or
// both.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/files.h"
#include "muster/cli/launch_flags.h"

namespace muster::cli {

// As torchrun has it: 0 none, 1 output, 2 errors, 3 both, of all processes of this host; or of some
// by their numbers on it, and none of the others: "0:1,2:3".
class StreamChoice {
 public:
  // Nothing: it is neither.
  static std::optional<StreamChoice> parse(std::string_view text);
  bool has(std::int32_t local, bool is_error) const;
  bool is_empty() const;

 private:
  int of_all_ = 0;
  std::map<std::int32_t, int> of_some_;
};

struct LaunchOutput {
  Path log_folder = {};          // rank-N.log are written here; empty: nowhere
  std::string role = {};         // stands before a rank's number in place of "rank"
  StreamChoice redirected = {};  // to the logs
  StreamChoice teed = {};        // to the logs, and shown all the same

  bool shows(std::int32_t local, bool is_error) const {
    return !redirected.has(local, is_error) || teed.has(local, is_error);
  }
};

// kInvalid names the flag or variable.
Result<LaunchOutput> launch_output(const LaunchFlags& flags,
                                   const std::map<std::string, std::string>& environment);

}  // namespace muster::cli
