#pragma once
// Small batches of random images or tokens for tests of strategies: the same samples however slices
// are dealt.

#include <torch/types.h>

#include <cstdint>
#include <numeric>
#include <variant>
#include <vector>

#include "muster/base/random.h"
#include "muster/comm/sum_tree.h"
#include "muster/data/batch.h"
#include "muster/models/create.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

inline constexpr std::int32_t kSlices = 8;
inline constexpr std::int64_t kImage = 8;  // pixels a side

inline constexpr std::int64_t kContext = 6;  // inputs of a sample; one more is its last target

// One rank's slices of a batch of `samples` random images with labels, or texts.
struct Batch {
  enum class Content { kImages, kTokens };

  Batch(std::int64_t samples, comm::LeafRange mine, std::uint64_t seed)
      : Batch(samples, slices_of(mine), seed) {}
  Batch(std::int64_t samples, const std::vector<std::int32_t>& mine, std::uint64_t seed,
        Content content = Content::kImages, std::int64_t context = kContext) {
    step.samples = samples;
    for (const std::int32_t s : mine) {
      const comm::LeafRange range =
          comm::even_share(static_cast<std::int32_t>(samples), kSlices, s);
      const std::int64_t n = range.size();
      if (content == Content::kTokens) {
        add_tokens(SliceIndex{s}, range, seed, context);
        continue;
      }
      at::Tensor image = torch::empty({n, 1, kImage, kImage});
      at::Tensor label = torch::empty({n}, torch::kLong);
      const RandomStream random(seed, "image");
      for (std::int64_t i = 0; i < n; ++i) {
        const RandomStream sample = random.fork(static_cast<std::uint64_t>(range.begin + i));
        for (std::int64_t p = 0; p < kImage * kImage; ++p) {
          image[i][0][p / kImage][p % kImage] = sample.normal(static_cast<std::uint64_t>(p));
        }
        label[i] = static_cast<std::int64_t>(sample.below(1000, 10));
      }
      step.slices.push_back({.slice = SliceIndex{s},
                             .positions = {range.begin, range.end},
                             .samples = n,
                             .fields = {{"image", view_over(image)}, {"label", view_over(label)}},
                             .storage = nullptr});
      tensors.insert(tensors.end(), {image, label});
    }
  }
  void add_tokens(SliceIndex slice, comm::LeafRange range, std::uint64_t seed,
                  std::int64_t context) {
    at::Tensor tokens = torch::empty({range.size(), context + 1}, torch::kUInt8);
    const RandomStream random(seed, "tokens");
    for (std::int64_t i = 0; i < range.size(); ++i) {
      const RandomStream sample = random.fork(static_cast<std::uint64_t>(range.begin + i));
      for (std::int64_t t = 0; t <= context; ++t)
        tokens[i][t] = static_cast<std::int64_t>(sample.below(static_cast<std::uint64_t>(t), 64));
    }
    step.slices.push_back({.slice = slice,
                           .positions = {range.begin, range.end},
                           .samples = range.size(),
                           .fields = {{"tokens", view_over(tokens)}},
                           .storage = nullptr});
    tensors.push_back(tokens);
  }
  static std::vector<std::int32_t> slices_of(comm::LeafRange range) {
    std::vector<std::int32_t> slices(static_cast<std::size_t>(range.size()));
    std::iota(slices.begin(), slices.end(), range.begin);
    return slices;
  }

  data::StepBatch step;
  std::vector<at::Tensor> tensors;
};

// What a model of this family learns from.
inline Batch::Content content_of(const models::ModelSpec& spec) {
  const auto family = models::family_of(spec);
  const bool images = family == "mlp" || family == "resnet";
  return images ? Batch::Content::kImages : Batch::Content::kTokens;
}

// How many inputs its samples have, where it learns from tokens.
inline std::int64_t context_of(const models::ModelSpec& spec) {
  if (const auto* gpt = std::get_if<models::GptSpec>(&spec)) return gpt->context;
  if (const auto* llama = std::get_if<models::LlamaSpec>(&spec)) return llama->context;
  return kContext;
}

// The slices of `rank`.
inline std::vector<std::int32_t> slices_of(const comm::LeafOwners& owners, Rank rank) {
  std::vector<std::int32_t> mine;
  for (std::int32_t slice = 0; slice < kSlices; ++slice)
    if (owners[static_cast<std::size_t>(slice)] == rank) mine.push_back(slice);
  return mine;
}

}  // namespace muster::parallel
