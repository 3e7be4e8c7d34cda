#pragma once
// Ranks of a program on this host that meet through app/world: started together, ended together.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cli/context.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/process_group.h"

namespace muster::cli {

// How lines of ranks are shown.
struct RankView {
  std::string name = "rank";  // stands before the number of who has written a line
  // Those of the process with this number on this host; none: all are.
  std::function<bool(std::int32_t local, bool is_error)> shows = {};
};

// Shows the first rank's lines as they are, those of others with who wrote them.
class RankLines final : public cluster::LaunchObserver, public cluster::ProcessGroupObserver {
 public:
  RankLines(Context& context, std::int32_t first_rank, RankView view)
      : context_(context), first_(first_rank), view_(std::move(view)) {}

  void on_line(Rank rank, bool is_error, std::string_view line) override;
  void on_line(std::size_t process, bool is_error, std::string_view line) override;

 private:
  void show(std::int32_t local, bool is_error, std::string_view line);

  Context& context_;
  const std::int32_t first_;
  const RankView view_;
};

struct Ranks {
  std::vector<std::string> command;
  std::int32_t ranks = 1;
  std::map<std::string, std::string> environment = {};  // besides what tells them their place
  RankView view = {};
  Path log_folder = {};  // rank-N.log are written here; empty: nowhere
};

struct RanksEnd {
  Status status = ok();
  std::optional<int> signal = {};  // ended on its request; none where a failure came before it
  bool stop_asked = false;         // by a signal, be it after a failure
};

// With a coordinator of this process's, which sees and names who fails. Blocks until all have
// ended. An Error: they could not be started.
Result<RanksEnd> run_ranks(const Ranks& ranks, Context& context);

}  // namespace muster::cli
