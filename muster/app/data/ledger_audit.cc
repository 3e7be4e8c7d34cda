#include "muster/app/data/ledger_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "muster/data/roll_call.h"
#include "muster/data/step_plan.h"
#include "muster/observe/sinks/ledger/ledger.h"

namespace muster::app {
namespace {

using Json = nlohmann::json;

struct Segment {
  std::uint64_t generation;
  std::int64_t first_step, last_step;
  std::int64_t epoch;
  std::int64_t begin, end;
  std::uint64_t roll;
};

Segment segment_of(const Json& line) {
  const Json& steps = line.at("steps");
  const Json& positions = line.at("positions");
  return {line.at("generation"), steps.at(0),     steps.at(1),    line.at("epoch"),
          positions.at(0),       positions.at(1), line.at("roll")};
}

// A damaged number must not cost the time that so many slices or steps would take.
constexpr std::int32_t kMostSlices = 1 << 20;

class Auditor {
 public:
  Result<LedgerAudit> run(std::string_view text, Step reached);

 private:
  void read_line(std::string_view line);
  void start(const Json& line);
  void go_back(const Json& line);
  void leave_out(const Json& steps);
  void go_on_after(std::int64_t step);
  bool can_be(const Segment& segment) const;
  void add(const Segment& segment);
  std::uint64_t expected_roll(const Segment& segment) const;
  void fault(std::string text) {
    audit_.faults.push_back(fmt::format("line {}: {}", number_, std::move(text)));
  }

  LedgerAudit audit_;
  std::optional<data::StepPlan> plan_;
  data::Cursor cursor_;  // after the last committed step
  std::int64_t step_ = 0;
  struct Steps {
    std::int64_t after, last;
  };
  std::vector<Steps> unrecorded_;
  std::set<std::uint64_t> generations_;
  std::string hash_;
  std::int64_t number_ = 0;
  std::int64_t torn_ = -1;  // the last line that is none
};

Result<LedgerAudit> Auditor::run(std::string_view text, Step reached) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    ++number_;
    read_line(end == text.npos ? "" : text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (!plan_) {
      return fail(ErrorCode::kCorrupt,
                  "[data/audit] not a ledger: its first line does not say how a run started");
    }
  }
  if (!plan_) return fail(ErrorCode::kCorrupt, "[data/audit] the ledger is empty");
  if (step_ == 0)
    audit_.faults.emplace_back(
        "nothing is committed: no step is recorded; none was trained yet, or the launcher was "
        "killed before it wrote of one");
  if (to_int(reached) > step_) go_on_after(to_int(reached));
  for (const Steps& gap : unrecorded_) {
    if (gap.last <= gap.after) continue;
    audit_.unrecorded += gap.last - gap.after;
    audit_.unrecorded_ranges.emplace_back(gap.after + 1, gap.last);
  }
  audit_.steps = step_;
  audit_.samples = cursor_.samples_seen;
  audit_.whole_epochs = cursor_.epoch;
  audit_.generations = static_cast<std::int64_t>(generations_.size());
  return std::move(audit_);
}

void Auditor::read_line(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  const std::size_t cut = line.rfind(",\"hash\":");
  // A line that a crash cut short is followed by the start that came after it.
  if (!json.is_object() || cut == line.npos) {
    if (plan_) fault("cut short");
    torn_ = number_;
    return;
  }
  try {
    hash_ = observe::ledger_hash(hash_, line.substr(0, cut));
    if (json.at("hash") != hash_) {
      fault("the chain of hashes breaks: a line was changed, removed or put in");
      hash_ = json.at("hash").get<std::string>();
    }
    if (json.contains("started_after")) return start(json);
    if (plan_ && json.contains("back_to")) return go_back(json);
    if (plan_ && json.contains("unrecorded")) return leave_out(json.at("unrecorded"));
    if (plan_) add(segment_of(json));
  } catch (const Json::exception& exception) {
    fault(fmt::format("not a line of a ledger: {}", exception.what()));
  }
}

void Auditor::start(const Json& line) {
  const std::int64_t after = line.at("started_after");
  const data::StepPlanOptions options{
      .epoch_size = line.at("epoch_size"), .batch = line.at("batch"), .slices = line.at("slices")};
  if (options.epoch_size < 1 || options.batch < 1 || options.slices < 1 ||
      options.slices > kMostSlices || after < 0)
    return fault("a start with numbers that no run has");
  plan_.emplace(options);
  audit_.epoch_size = options.epoch_size;
  ++audit_.starts;
  // What was torn when the run before ended is of no account: the checkpoint counts.
  if (torn_ == number_ - 1 && !audit_.faults.empty()) audit_.faults.pop_back();
  go_on_after(after);
}

// To a checkpoint, or where there is none to the beginning: a part of the state was nowhere else.
void Auditor::go_back(const Json& line) {
  const std::int64_t to = line.at("back_to");
  if (to < 0) return fault("a step to go back to that no run has");
  go_on_after(to);
}

// Lines were lost, and some of them may have taken back steps.
void Auditor::leave_out(const Json& steps) {
  const std::int64_t first = steps.at(0), last = steps.at(1);
  if (first < 1 || last < first - 1) return fault("steps left out that no run has");
  go_on_after(first - 1);
  go_on_after(last);
}

void Auditor::go_on_after(std::int64_t after) {
  audit_.superseded += std::max<std::int64_t>(step_ - after, 0);
  for (Steps& gap : unrecorded_) gap.last = std::min(gap.last, after);  // trained again
  if (after > step_) unrecorded_.push_back({step_, after});
  step_ = after;
  cursor_ = plan_->at(Step{after});
}

void Auditor::add(const Segment& segment) {
  if (segment.first_step != step_ + 1)
    fault(fmt::format("step {} follows step {}", segment.first_step, step_));
  if (!can_be(segment)) return fault("a range that no step consumes");
  const std::int64_t size = plan_->options().epoch_size;
  const std::int64_t gap =
      (segment.epoch - cursor_.epoch) * size + segment.begin - cursor_.position;
  audit_.lost += std::max<std::int64_t>(gap, 0);
  audit_.repeated += std::max<std::int64_t>(-gap, 0);
  if (gap == 0 && expected_roll(segment) != segment.roll)
    fault("the roll call is not that of these samples in these slices");
  generations_.insert(segment.generation);
  step_ = segment.last_step;
  cursor_ = {segment.epoch + (segment.end == size ? 1 : 0), segment.end == size ? 0 : segment.end,
             segment.epoch * size + segment.end};
}

// Each of its steps consumes a sample at least.
bool Auditor::can_be(const Segment& segment) const {
  return segment.first_step >= 1 && segment.last_step >= segment.first_step && segment.epoch >= 0 &&
         segment.epoch < (std::int64_t{1} << 31) && segment.begin >= 0 &&
         segment.end > segment.begin && segment.end <= plan_->options().epoch_size &&
         segment.last_step - segment.first_step < segment.end - segment.begin;
}

std::uint64_t Auditor::expected_roll(const Segment& segment) const {
  std::uint64_t total = 0;
  data::Cursor at = cursor_;
  for (std::int64_t step = segment.first_step; step <= segment.last_step; ++step) {
    total += data::roll_of(*plan_, at);
    at = plan_->after(at);
  }
  return total;
}

}  // namespace

Result<LedgerAudit> audit_ledger(std::string_view text, Step reached) {
  return Auditor().run(text, reached);
}

}  // namespace muster::app
