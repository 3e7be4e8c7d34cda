// layers: what muster's layers do without a model. Three ranks, threads here, each take their share
// of a shuffled epoch and add up what they have seen; the sum is kept in a checkpoint and read
// back.

#include <muster/checkpoint/checkpointer.h>
#include <muster/comm/backend/loopback/loopback.h>
#include <muster/data/sampler.h>

#include <cstdint>
#include <iostream>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace {

using namespace muster;

constexpr std::int64_t kSamples = 1000;
constexpr std::int32_t kRanks = 3;

// The samples of this rank, summed over all ranks.
Status add_up(comm::Communicator& ranks, double& sum) {
  const data::Sampler sampler(/*seed=*/7, kSamples, /*shuffle=*/true);
  for (std::int64_t at = to_int(ranks.group().rank); at < kSamples; at += kRanks)
    sum += static_cast<double>(sampler.index(/*epoch=*/0, at));
  return ranks.submit(comm::AllReduce{.buffer = view_of(std::span(&sum, 1))}, {}).wait();
}

Status keep_and_read(double sum, const Path& folder) {
  checkpoint::Checkpointer checkpoints(system_files(), system_clock(), folder, {.job = "layers"});
  const NamedTensor kept{"sum", view_of(std::span(&sum, 1))};
  MUSTER_TRY(checkpoints.save({.step = Step{1}, .model = {kept}}));
  double found = 0;
  MUSTER_TRY(checkpoints.load_weights(Step{1}, {{"sum", view_of(std::span(&found, 1))}}));
  std::cout << "every sample once: " << found << " is the sum of 0 to " << kSamples - 1 << "\n";
  return found == sum ? ok() : Status(fail(ErrorCode::kCorrupt, "[layers] another number"));
}

int tell(const Error& error) {
  std::cerr << error.message << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto ranks = comm::create_loopback(kRanks);
  std::vector<double> sums(kRanks);
  std::vector<Status> ended(kRanks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r] { ended[r] = add_up(*ranks[r], sums[r]); });
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : ended)
    if (!status) return tell(status.error());
  if (sums.front() != kSamples * (kSamples - 1) / 2 || sums.back() != sums.front())
    return tell(fail(ErrorCode::kInternal, "[layers] a sample came twice, or never"));
  const Status kept = keep_and_read(sums.front(), argc > 1 ? argv[1] : "layers-checkpoints");
  return kept ? 0 : tell(kept.error());
}
