#pragma once
// The gradients of the experts that a rank holds: of every slice of its replica, which the ranks of
// the replica compute at the same time, one each, pass by pass. They are summed along the fixed
// tree of slices, as all gradients are, and then over the replicas. One thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/parallel/gradient_exchange.h"
#include "muster/parallel/shard_plan.h"

namespace muster::parallel {

class HeldExperts {
 public:
  // Model::expert_parameters(); they outlive it.
  explicit HeldExperts(const std::vector<models::Parameter>& parameters);

  // `replicas`: the ranks that hold the same experts, one of each replica; owners[i]: the one in
  // whose replica slice i is computed; slices[r]: those of rank r of this one's, in order, as many
  // for each.
  struct Generation {
    std::shared_ptr<comm::Communicator> replicas;
    comm::LeafOwners owners;
    std::vector<std::vector<std::int32_t>> slices;
    BucketShards shards;  // as ExchangeOptions has them
  };
  Status enter(Generation generation, BucketSizes bucket_sizes, const comm::OpOptions& op);
  std::vector<std::int64_t> slot_counts() const;  // of the exchange

  void begin(std::optional<Duration> timeout);  // a step
  // As models::ExpertGroup::found: once a slice for each rank and parameter.
  void found(const at::Tensor& parameter, std::int32_t source, const at::Tensor& gradient);
  // Waits for the sums. Slices without a pass count as zeros.
  Status finish();
  std::uint64_t bytes() const noexcept;  // handed to the communicator in a step

  bool any() const noexcept { return !parameters_.empty(); }
  const std::vector<models::Parameter>& parameters() const noexcept { return parameters_; }
  GradientExchange& exchange() noexcept { return *exchange_; }  // where there are any

 private:
  std::int32_t slot_of(std::size_t parameter) const noexcept;
  void add(std::size_t parameter, std::size_t source, std::span<const float> gradient);

  const std::vector<models::Parameter>& parameters_;
  std::unordered_map<const void*, std::size_t> index_;  // by tensor
  std::vector<float> zeros_;                            // as long as the largest

  // Of the present generation; none where nothing is trained:
  std::unique_ptr<GradientExchange> exchange_;
  std::vector<std::vector<std::int32_t>> slices_;
  std::vector<std::vector<std::size_t>> found_;  // by parameter and rank: of how many slices
};

}  // namespace muster::parallel
