// What is on in every training costs: one operation in the flight recorder, which also writes down
// where the worker waits; one step in the ledger, from the first rank to the launcher's disk; the
// roll call of one step of 8 slices. And what a new generation has to work out before it can sum
// again: the tree of 64 slices over 7 workers, with the schedule by which they sum it over TCP. A
// line each, "<name> <nanoseconds>": the median round. Usage: muster_bench_always_on FOLDER

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include "muster/base/files.h"
#include "muster/cluster/whereabouts.h"
#include "muster/comm/schedule.h"
#include "muster/comm/sum_tree.h"
#include "muster/comm/wrap/wrappers.h"
#include "muster/data/roll_call.h"
#include "muster/observe/record_codec.h"
#include "muster/observe/sinks/ledger/ledger.h"

namespace muster {
namespace {

constexpr int kRounds = 9;
constexpr int kTimes = 20'000;  // a round

// Nanoseconds of one call.
double time_of(const std::function<void(std::int64_t)>& call) {
  std::vector<double> rounds;
  std::int64_t number = 0;
  for (int round = 0; round < kRounds; ++round) {
    const TimePoint began = system_clock().now();
    for (int i = 0; i < kTimes; ++i) call(number++);
    rounds.push_back(static_cast<double>((system_clock().now() - began).count()) / kTimes);
  }
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  return rounds[kRounds / 2];
}

// Whose operations are over at once.
class Idle final : public comm::Communicator {
 public:
  const comm::Group& group() const noexcept override { return group_; }
  comm::Work submit(comm::Op, const comm::OpOptions&) override { return comm::Work::ended(ok()); }
  Result<comm::CommunicatorPtr> split(int, int) override { return std::make_shared<Idle>(); }
  void abort(Error) noexcept override {}
  Result<comm::Buffer> allocate(std::size_t) override {
    return fail(ErrorCode::kUnsupported, "[bench] it holds no memory");
  }

 private:
  comm::Group group_;
};

double recorder() {
  const auto whereabouts = cluster::Whereabouts::create().value();
  const auto recorder = std::make_shared<comm::FlightRecorder>();
  recorder->on_change([&](std::string_view operation) { whereabouts->waiting_in(operation); });
  const auto plain = std::make_shared<Idle>();
  const auto traced = comm::with_trace(plain, recorder);
  std::vector<float> values(8);
  const auto submit = [&](comm::Communicator& communicator) {
    return time_of([&](std::int64_t number) {
      communicator.submit(comm::AllReduce{.buffer = view_of(std::span(values))},
                          {.label = fmt::format("gradients/{}", number % 8)});
    });
  };
  const double with = submit(*traced);
  return with - submit(*plain);
}

constexpr data::StepPlanOptions kPlan{.epoch_size = 1'000'000'000, .batch = 256, .slices = 8};

double roll_call() {
  const data::StepPlan plan(kPlan);
  std::uint64_t wrong = 0;
  const double took = time_of([&](std::int64_t number) {
    const data::Cursor cursor = plan.at(Step{number});
    const Share step = plan.step(cursor);
    data::RollLimbs sum{};
    for (std::int32_t slice = 0; slice < kPlan.slices; ++slice) {
      const auto mark = data::slice_mark(0, SliceIndex{slice}, plan.slice(step, SliceIndex{slice}));
      const data::RollLimbs limbs = data::limbs_of(mark);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += limbs[i];
    }
    wrong += data::total_of(sum) == data::roll_of(plan, cursor) ? 0 : 1;
  });
  if (wrong > 0) fmt::print(stderr, "{} roll calls are wrong\n", wrong);
  return took;
}

double ledger(const Path& folder) {
  const Path path = folder / "ledger.jsonl";
  const auto sink = observe::create_ledger_sink(
      system_files(), path, system_clock(),
      [](const Error& error) { fmt::print(stderr, "{}\n", error.message); });
  if (!sink) return -1;
  const double took = time_of([&](std::int64_t number) {
    const observe::Record row = observe::StepCommitted{.step = Step{number + 1},
                                                       .generation = Generation{1},
                                                       .epoch = 0,
                                                       .begin = number * kPlan.batch,
                                                       .end = (number + 1) * kPlan.batch,
                                                       .roll = 5};
    const auto sent = observe::encode(std::span(&row, 1));
    const auto received = observe::decode(sent).value();
    for (const observe::Record& record : received) (*sink)->take(record);
  });
  std::filesystem::remove(path);
  return took;
}

constexpr std::int32_t kSurvivors = 7, kLeaves = 64;

double schedule() {
  std::vector<float> values(1 << 16);
  const auto survivors = comm::Topology::apart(kSurvivors);
  std::size_t transfers = 0;
  const double took = time_of([&](std::int64_t number) {
    const auto owners = comm::even_owners(kLeaves, kSurvivors);
    const auto tree = std::make_shared<comm::SumTree>(owners, kSurvivors);
    const comm::AllReduce op{.buffer = view_of(std::span(values)), .tree = tree};
    const Rank rank{static_cast<std::int32_t>(number % kSurvivors)};
    transfers += comm::make_schedule(op, {comm::Algorithm::kDirect}, rank, survivors).steps.size();
  });
  return transfers > 0 ? took : -1;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", argv[0]);
    return 2;
  }
  fmt::print("recorder {:.0f}\nroll_call {:.0f}\nledger {:.0f}\nschedule {:.0f}\n",
             muster::recorder(), muster::roll_call(), muster::ledger(argv[1]), muster::schedule());
  return 0;
}
