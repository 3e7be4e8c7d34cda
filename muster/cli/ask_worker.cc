#include "muster/cli/ask_worker.h"

#include <algorithm>

#include "muster/base/shared_page.h"
#include "muster/cli/machine.h"

namespace muster::cli {

Result<std::string> ask_worker(const Path& program, const std::string& question,
                               const job::Job& job, const std::vector<std::string>& more,
                               std::chrono::milliseconds limit, Context& context) {
  const std::string text = job::to_yaml(job, false);
  MUSTER_ASSIGN(const auto resolved, SharedPage::create(text.size()));
  std::ranges::copy(std::as_bytes(std::span(text)), resolved->bytes().begin());
  std::vector<std::string> command = {program.string(), question, resolved->path()};
  command.insert(command.end(), more.begin(), more.end());
  auto answer = context.machine.output_of(command, limit);
  if (answer || answer.error().code != ErrorCode::kInvalid) return answer;
  Error wrong = std::move(answer).error();
  wrong.message = job::with_place(job, wrong.message);
  return wrong;
}

}  // namespace muster::cli
