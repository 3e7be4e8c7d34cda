#include "muster/cli/starter_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "muster/base/units.h"
#include "muster/observe/number_text.h"

namespace muster::cli {
namespace {

using app::LabelledArrays;
using app::PlainText;

constexpr std::int64_t kSlices = 8;
constexpr std::int64_t kSmallestImage = 8;      // pixels a side, that a resnet halves twice
constexpr std::int64_t kSamplesSeen = 480'000;  // what a first try takes, some minutes
constexpr std::uint64_t kLeastText = 10 << 10;  // bytes

// JSON's strings are YAML's.
std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

bool are_images(const LabelledArrays& found) {
  return found.shape.size() == 3 && found.shape[1] >= kSmallestImage &&
         found.shape[2] >= kSmallestImage;
}

// A multiple of the slices, and some fifty steps an epoch where there is little.
std::int64_t batch_of(const LabelledArrays& found) {
  const std::int64_t batch = found.training / 50 / kSlices * kSlices;
  return std::clamp<std::int64_t>(batch, kSlices, 256);
}

std::int64_t epochs_of(const LabelledArrays& found) {
  return std::clamp<std::int64_t>(kSamplesSeen / found.training, 2, 100);
}

std::string model_of(const LabelledArrays& found) {
  if (are_images(found))
    return fmt::format(
        "model:\n  type: resnet\n  channels: [16, 32, 64]    # of its stages; twice as many learn "
        "more, and take four times as long\n  blocks_per_stage: 1\n  classes: {}\n",
        found.classes);
  return fmt::format("model:\n  type: mlp\n  hidden_sizes: [128, 64]\n  classes: {}\n",
                     found.classes);
}

std::string data_of(const LabelledArrays& found, const std::string& path) {
  std::string text = fmt::format("data:\n  type: idx\n  path: {}\n", quoted(path));
  if (!found.mean.empty())
    text += fmt::format("  mean: [{}]          # of the pixels, in [0, 1]\n  std: [{}]\n",
                        fmt::join(found.mean, ", "), fmt::join(found.std, ", "));
  if (are_images(found))
    text +=
        "  augment:\n    crop_padding: 2\n    flip: false             # true where left and right "
        "mean the same\n";
  return text;
}

std::string job_for(const LabelledArrays& found, const std::string& path) {
  return fmt::format(
      "{}\n{}\ntraining:\n  epochs: {}\n  global_batch_size: {}    # {} virtual workers × {}: the "
      "most workers that can share a step\n  virtual_workers: {}\n\noptimizer:\n  type: adamw\n  "
      "learning_rate: 1e-3\n  weight_decay: 0.05\n\nschedule:\n  type: cosine\n  warmup: 5%\n"
      "\nevaluation:\n  every: 1 epoch\n  keep_best: true\n\ncheckpoint:\n  every: 1 epoch\n  "
      "keep: 2\n",
      model_of(found), data_of(found, path), epochs_of(found), batch_of(found), kSlices,
      batch_of(found) / kSlices, kSlices);
}

std::string job_for(const PlainText&, const std::string& path) {
  return fmt::format(
      "model:\n  type: gpt               # or llama, moe\n  n_layer: 4\n  n_head: 4\n  n_embd: "
      "128\n"
      "\ndata:\n  type: text              # read byte by byte\n  path: {}\n  context_length: 128\n"
      "  validation_split: 5%    # the end of the file\n\ntraining:\n  max_steps: 1000\n  "
      "global_batch_size: 32   # {} virtual workers × {}: the most workers that can share a step\n"
      "  virtual_workers: {}\n  max_grad_norm: 1.0\n\noptimizer:\n  type: adamw\n  learning_rate: "
      "3e-3\n  beta2: 0.99\n  weight_decay: 0.1\n\nschedule:\n  type: cosine\n  warmup: 5%\n  "
      "final_ratio: 0.1\n\nevaluation:\n  every: 250 steps\n  keep_best: true\n\ncheckpoint:\n  "
      "every: 250 steps\n  keep: 2\n\ngenerate:               # a sample at the end\n  length: "
      "400\n",
      quoted(path), kSlices, 32 / kSlices, kSlices);
}

Status check(const LabelledArrays& found) {
  if (found.training >= kSlices && found.validation > 0 && found.classes >= 2) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[init] there is too little to learn from: {}; a job takes at least {} "
                          "samples to train with, one to be measured on, and two classes",
                          describe(app::DataFound(found)), kSlices));
}

Status check(const PlainText& found) {
  if (found.bytes >= kLeastText) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[init] there is too little to learn from: {}; take at least {}",
                          describe(app::DataFound(found)), format_bytes(kLeastText)));
}

std::string words(const LabelledArrays& found) {
  return fmt::format(
      "{} + {} {} of {} in {} classes", observe::grouped(found.training),
      observe::grouped(found.validation), are_images(found) ? "images" : "samples",
      found.shape.empty() ? "one number" : fmt::format("{}", fmt::join(found.shape, " × ")),
      found.classes);
}

std::string words(const PlainText& found) {
  return fmt::format("{} of text", format_bytes(found.bytes));
}

}  // namespace

Result<std::string> starter_job(const app::DataFound& found, const std::string& path) {
  MUSTER_TRY(std::visit([](const auto& data) { return check(data); }, found));
  return fmt::format("# {}: {}.\n# Every field, its default and its meaning: muster help job\n\n{}",
                     path, describe(found),
                     std::visit([&](const auto& data) { return job_for(data, path); }, found));
}

std::string describe(const app::DataFound& found) {
  return std::visit([](const auto& data) { return words(data); }, found);
}

}  // namespace muster::cli
