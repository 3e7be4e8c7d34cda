#pragma once
// Ranks of a program on this host that meet through app/world: started together, ended together.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cli/context.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/process_group.h"

namespace muster::cli {

// Shows the first rank's lines as they are, those of others with who wrote them.
class RankLines final : public cluster::LaunchObserver, public cluster::ProcessGroupObserver {
 public:
  RankLines(Context& context, std::int32_t first_rank) : context_(context), first_(first_rank) {}

  void on_line(Rank rank, bool is_error, std::string_view line) override;
  void on_line(std::size_t process, bool is_error, std::string_view line) override;

 private:
  void show(std::int32_t rank, bool is_error, std::string_view line);

  Context& context_;
  const std::int32_t first_;
};

struct Ranks {
  std::vector<std::string> command;
  std::int32_t ranks = 1;
  std::map<std::string, std::string> environment = {};  // besides what tells them their place
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
