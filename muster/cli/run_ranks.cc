#include "muster/cli/run_ranks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ostream>

namespace muster::cli {
namespace {

// Where some have come to their end, to the launcher the others' is no loss any more.
Status all_ended_well(const cluster::JobEnd& end) {
  for (std::size_t rank = 0; rank < end.exit_statuses.size(); ++rank) {
    const int status = end.exit_statuses[rank];
    if (status == 0) continue;
    return fail(ErrorCode::kPeerLost,
                fmt::format("[launch] rank {} {} {} when others had come to their end", rank,
                            status < 0 ? "was killed by signal" : "ended with exit status",
                            std::abs(status)),
                Rank{static_cast<std::int32_t>(rank)});
  }
  return ok();
}

}  // namespace

void RankLines::on_line(Rank rank, bool is_error, std::string_view line) {
  show(to_int(rank), is_error, line);  // of one host, whose numbers they are
}

void RankLines::on_line(std::size_t process, bool is_error, std::string_view line) {
  show(static_cast<std::int32_t>(process), is_error, line);
}

void RankLines::show(std::int32_t local, bool is_error, std::string_view line) {
  if (view_.shows && !view_.shows(local, is_error)) return;
  const std::int32_t rank = first_ + local;
  std::ostream& to = is_error ? context_.err : context_.out;
  if (rank != 0) to << fmt::format("[{}{}] ", view_.name, rank);
  to << line << "\n" << std::flush;
}

Result<RanksEnd> run_ranks(const Ranks& ranks, Context& context) {
  const Logger log = context.logger();
  const auto launcher = cluster::create_local_launcher(system_processes(), context.files, log);
  cluster::LaunchSpec spec;
  spec.command = ranks.command;
  spec.environment = ranks.environment;
  spec.log_folder = ranks.log_folder;
  spec.workers = spec.max_workers = spec.min_workers = ranks.ranks;
  RankLines lines(context, 0, ranks.view);
  MUSTER_ASSIGN(auto end, launcher->run(spec, lines));
  if (!end.failure)
    return RanksEnd{end.signal ? ok() : all_ended_well(end), end.signal, end.stop_asked};
  end.failure->action.clear();  // it speaks of fields of a job
  return RanksEnd{fail(end.failure->error.code, describe(*end.failure)), end.signal,
                  end.stop_asked};
}

}  // namespace muster::cli
