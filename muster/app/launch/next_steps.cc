#include "muster/app/launch/next_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/shell_words.h"
#include "muster/observe/number_text.h"

namespace muster::app {
namespace {

// A run may be beyond what its job says by now.
std::string twice_as_long(const job::TrainingSpec& training, Step done) {
  std::string sets;
  if (training.epochs) sets += fmt::format(" --set training.epochs={}", 2 * *training.epochs);
  if (training.max_steps) {
    sets += fmt::format(" --set training.max_steps={}",
                        2 * std::max<std::int64_t>(*training.max_steps, to_int(done)));
  }
  return sets;
}

// What its command line was, nobody here knows.
std::string started_as_before(const RunOutcome& outcome) {
  return outcome.launcher.empty() ? "" : fmt::format("  (by {}, as before)", outcome.launcher);
}

// What one may do and its command line, below each other.
std::string in_columns(const std::vector<std::pair<std::string, std::string>>& choices) {
  std::size_t widest = 0;
  for (const auto& [what, command] : choices) widest = std::max(widest, what.size());
  std::string text;
  for (const auto& [what, command] : choices)
    text +=
        fmt::format("{}{:<{}}  {}", text.empty() ? "next: " : "\n      ", what, widest, command);
  return text;
}

std::string after_success(const RunOutcome& outcome, const job::JobSpec& job) {
  if (!outcome.saved) return {};
  const auto take = [&](std::string_view flag, std::string_view into) {
    return fmt::format("{} checkpoint export {}{} --output {}", outcome.program,
                       shell_quoted(outcome.run.string()), flag, into);
  };
  std::vector<std::pair<std::string, std::string>> choices = {
      {"take the weights", take("", "weights")}};
  if (outcome.best)
    choices.emplace_back(
        fmt::format("take the best, of step {}", observe::grouped(to_int(*outcome.best))),
        take(" --best", "best"));
  const std::string behind = started_as_before(outcome);
  // With its patience a longer one would end as soon.
  if (!outcome.patient)
    choices.emplace_back(
        "train on for longer",
        fmt::format("{} --set evaluation.early_stop_patience={}{}", outcome.resume_command,
                    2 * job.evaluation.early_stop_patience, behind));
  else
    choices.emplace_back(
        "train twice as long",
        outcome.extend_command + twice_as_long(job.training, outcome.step) + behind);
  return in_columns(choices);
}

std::string after_divergence(const RunOutcome& outcome, const job::JobSpec& job) {
  const std::string lower =
      fmt::format("--set optimizer.learning_rate={:g}", job.optimizer.learning_rate / 10);
  if (!outcome.saved) return "nothing was saved yet; start again with " + lower;
  return fmt::format("go on from the last good checkpoint with: {} {}{}", outcome.calmer_command,
                     lower, started_as_before(outcome));
}

std::string after_failure(const RunOutcome& outcome) {
  if (outcome.ruined)
    return fmt::format(
        "none of its checkpoints is whole, so it can only start again, without --resume; what is "
        "damaged says: {} checkpoint verify {}",
        outcome.program, shell_quoted(outcome.run.string()));
  if (outcome.saved) return "go on with: " + outcome.resume_command + started_as_before(outcome);
  if (outcome.code != ExitCode::kFailed) return {};
  return "nothing was saved yet, so it can only start again; checkpoint.every says how often to "
         "save";
}

}  // namespace

std::string next_steps(const RunOutcome& outcome, const job::JobSpec& job) {
  switch (outcome.code) {
    case ExitCode::kDone:
      return after_success(outcome, job);
    case ExitCode::kNumeric:
      return after_divergence(outcome, job);
    case ExitCode::kUsage:
      return {};
    default:
      return after_failure(outcome);
  }
}

}  // namespace muster::app
