#include "muster/cli/ask_worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/shared_page.h"
#include "muster/job/values.h"

namespace muster::cli {
namespace {

// Whatever is asked, the worker builds the model and runs passes of it, which takes as long as the
// model is large.
Error too_slow(const Path& program, const std::string& question, Duration limit) {
  return fail(ErrorCode::kTimeout,
              fmt::format("[muster] {} {} did not answer within {}: it builds the model and runs "
                          "passes of it, so a smaller model or training.micro_batch_size answers "
                          "sooner, and so does a machine that does nothing else",
                          program.string(), question, job::to_string(limit)));
}

}  // namespace

Result<std::string> ask_worker(const Path& program, const std::string& question,
                               const job::Job& job, const std::vector<std::string>& more,
                               std::chrono::milliseconds limit, Context& context) {
  return ask_worker(program, question, job, more, limit, {}, context);
}

Result<std::string> ask_worker(const Path& program, const std::string& question,
                               const job::Job& job, const std::vector<std::string>& more,
                               std::chrono::milliseconds limit, const GoesOn& goes_on,
                               Context& context) {
  const std::string text = job::to_yaml(job, false);
  MUSTER_ASSIGN(const auto resolved, SharedPage::create(text.size()));
  std::ranges::copy(std::as_bytes(std::span(text)), resolved->bytes().begin());
  std::vector<std::string> command = {program.string(), question, resolved->path()};
  command.insert(command.end(), more.begin(), more.end());
  auto answer = goes_on ? context.machine.output_in_two(command, limit, goes_on)
                        : context.machine.output_of(command, limit);
  if (answer) return answer;
  if (answer.error().code == ErrorCode::kTimeout) return too_slow(program, question, limit);
  if (answer.error().code != ErrorCode::kInvalid) return answer;
  Error wrong = std::move(answer).error();
  wrong.message = job::with_place(job, wrong.message);
  return wrong;
}

}  // namespace muster::cli
