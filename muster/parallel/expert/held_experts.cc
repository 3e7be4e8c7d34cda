#include "muster/parallel/expert/held_experts.h"

#include <algorithm>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

HeldExperts::HeldExperts(const std::vector<models::Parameter>& parameters)
    : parameters_(parameters) {
  std::int64_t largest = 0;
  for (const models::Parameter& parameter : parameters_) {
    index_.emplace(parameter.tensor.unsafeGetTensorImpl(), index_.size());
    largest = std::max(largest, parameter.tensor.numel());
  }
  zeros_.resize(static_cast<std::size_t>(largest));
}

// Backward finishes the last ones first. The first slot is not for gradients: it is never of 16
// bits (layout/bucket_layout.h).
std::int32_t HeldExperts::slot_of(std::size_t parameter) const noexcept {
  return static_cast<std::int32_t>(parameters_.size() - parameter);
}

std::vector<std::int64_t> HeldExperts::slot_counts() const {
  std::vector<std::int64_t> counts{1};
  for (auto parameter = parameters_.rbegin(); parameter != parameters_.rend(); ++parameter)
    counts.push_back(parameter->tensor.numel());
  return counts;
}

Status HeldExperts::enter(Generation generation, BucketSizes bucket_sizes,
                          const comm::OpOptions& op) {
  slices_ = std::move(generation.slices);
  if (!any()) return ok();
  const std::int32_t size = generation.replicas->group().size;
  const auto tree = std::make_shared<const comm::SumTree>(generation.owners, size);
  MUSTER_ASSIGN(exchange_, GradientExchange::create(std::move(generation.replicas), slot_counts(),
                                                    {.tree = tree,
                                                     .bucket_sizes = bucket_sizes,
                                                     .op = op,
                                                     .shards = std::move(generation.shards)}));
  return ok();
}

void HeldExperts::begin(std::optional<Duration> timeout) {
  if (!exchange_) return;
  found_.assign(parameters_.size(), std::vector<std::size_t>(slices_.size()));
  exchange_->begin(timeout);
  for (const std::vector<std::int32_t>& slices : slices_)
    for (const std::int32_t slice : slices)
      exchange_->add(slice, 0, std::span<const float>(zeros_).first(1), 0, 1);
}

void HeldExperts::found(const at::Tensor& parameter, std::int32_t source,
                        const at::Tensor& gradient) {
  const std::size_t index = index_.at(parameter.unsafeGetTensorImpl());
  const at::Tensor whole = gradient.defined() ? on_host(gradient) : gradient;
  const auto count = static_cast<std::size_t>(parameter.numel());
  add(index, static_cast<std::size_t>(source),
      whole.defined() ? std::span<const float>(floats_of(whole))
                      : std::span<const float>(zeros_).first(count));
}

void HeldExperts::add(std::size_t parameter, std::size_t source, std::span<const float> gradient) {
  const std::size_t slice = found_[parameter][source]++;
  MUSTER_CHECK(slice < slices_[source].size(), "a gradient for each slice");
  exchange_->add(slices_[source][slice], slot_of(parameter), gradient, 0, 1);
}

Status HeldExperts::finish() {
  if (!exchange_) return ok();
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    for (std::size_t source = 0; source < slices_.size(); ++source)
      while (found_[p][source] < slices_[source].size())
        add(p, source,
            std::span<const float>(zeros_).first(
                static_cast<std::size_t>(parameters_[p].tensor.numel())));
  return exchange_->finish();
}

std::uint64_t HeldExperts::bytes() const noexcept { return exchange_ ? exchange_->bytes() : 0; }

}  // namespace muster::parallel
