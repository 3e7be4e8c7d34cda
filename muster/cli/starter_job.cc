#include "muster/cli/starter_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

#include "muster/base/units.h"
#include "muster/base/utf8.h"
#include "muster/job/field.h"
#include "muster/job/text_check.h"
#include "muster/observe/number_text.h"

namespace muster::cli {
namespace {

using app::ImageFolders;
using app::LabelledArrays;
using app::LabelledTable;
using app::PlainText;

constexpr std::int64_t kSlices = 8;
constexpr std::int64_t kSmallestImage = 8;      // pixels a side, that a resnet halves twice
constexpr std::int64_t kSamplesSeen = 480'000;  // what a first try takes, some minutes
constexpr std::uint64_t kLeastText = 10 << 10;  // bytes

// What is no UTF-8 was refused before.
std::string quoted(const std::string& text) {
  return job::to_json(job::Printed{.text = text, .is_text = true});
}

bool holds_control(std::string_view text) {
  while (!text.empty()) {
    const auto length = std::max<std::size_t>(1, utf8_length(text));
    if (job::is_control(utf8_code(text, length))) return true;
    text.remove_prefix(length);
  }
  return false;
}

// A comment has no escapes, and ends with its line.
std::string in_comment(const std::string& text) {
  return holds_control(text) ? quoted(text) : text;
}

bool are_images(const LabelledArrays& found) {
  return found.shape.size() == 3 && found.shape[1] >= kSmallestImage &&
         found.shape[2] >= kSmallestImage;
}

// A multiple of the slices, and some fifty steps an epoch where there is little.
std::int64_t batch_of(std::int64_t training) {
  const std::int64_t batch = training / 50 / kSlices * kSlices;
  return std::clamp<std::int64_t>(batch, kSlices, 256);
}

std::int64_t epochs_of(std::int64_t training) {
  return std::clamp<std::int64_t>(kSamplesSeen / training, 2, 100);
}

std::string mlp_of(std::int64_t classes) {
  return fmt::format("model:\n  type: mlp\n  hidden_sizes: [128, 64]\n  classes: {}\n", classes);
}

std::string model_of(const LabelledArrays& found) {
  if (are_images(found))
    return fmt::format(
        "model:\n  type: resnet\n  channels: [16, 32, 64]    # of its stages; twice as many learn "
        "more, and take four times as long\n  blocks_per_stage: 1\n  classes: {}\n",
        found.classes);
  return mlp_of(found.classes);
}

std::string pixels_of(const LabelledArrays& found) {
  std::string text;
  if (!found.moments.mean.empty())
    text += fmt::format("  mean: [{}]          # of the pixels, in [0, 1]\n  std: [{}]\n",
                        fmt::join(found.moments.mean, ", "), fmt::join(found.moments.std, ", "));
  if (are_images(found))
    text +=
        "  augment:\n    crop_padding: 2\n    flip: false             # true where left and right "
        "mean the same\n";
  return text;
}

std::string held_out(double share) {
  return fmt::format("  validation_split: {:.0f}%   # chosen at random, the same in every run\n",
                     100 * share);
}

std::string data_of(const ImageFolders& found) {
  std::string text = fmt::format(
      "data:\n  type: images            # a folder of .png and .jpg for each class\n  "
      "path: {}\n",
      quoted(found.path.string()));
  text += found.validation_path.empty()
              ? held_out(found.validation_split)
              : fmt::format("  validation_path: {}\n", quoted(found.validation_path.string()));
  text += fmt::format("  image_size: {}          # pixels a side\n", found.size);
  if (found.gray) text += "  image_mode: gray\n";
  return text + pixels_of(found.pictures);
}

// The first of them: tables have thousands of columns.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + in_comment(names[i]);
  return text + (names.size() > kMost ? ", ..." : "");
}

std::string columns_of(const LabelledTable& found) {
  const std::int64_t words = std::ssize(found.of_words);
  std::string text = fmt::format("  # {} of numbers", counted(found.columns - words, "column"));
  if (words > 0) text += fmt::format(", {} of words: {}", words, some_of(found.of_words));
  if (found.ignore.empty()) return text + "\n";
  text += "\n  ignore:\n";
  for (const app::IgnoredColumn& column : found.ignore)
    text += fmt::format("    - {}    # {}\n", quoted(column.name), in_comment(column.why));
  return text;
}

std::string data_of(const LabelledTable& found, const std::string& path) {
  std::string text = fmt::format(
      "data:\n  type: csv\n  path: {}\n  target: {}       # the column of classes: {}\n{}",
      quoted(path), quoted(found.target), some_of(found.classes), columns_of(found));
  text += fmt::format("  delimiter: {}\n", quoted(std::string(1, found.delimiter)));
  if (found.decimal_comma) text += "  decimal: comma\n";
  if (!found.header) text += "  header: false           # columns are called 1, 2, ...\n";
  return text + held_out(found.validation_split);
}

// The parts that every job of labelled samples has.
std::string labelled_job(const std::string& model, const std::string& data, std::int64_t training) {
  return fmt::format(
      "{}\n{}\ntraining:\n  epochs: {}\n  global_batch_size: {}    # {} virtual workers × {}: the "
      "most workers that can share a step\n  virtual_workers: {}\n\noptimizer:\n  type: adamw\n  "
      "learning_rate: 1e-3\n  weight_decay: 0.05\n\nschedule:\n  type: cosine\n  warmup: 5%\n"
      "\nevaluation:\n  every: 1 epoch\n  keep_best: true\n\ncheckpoint:\n  every: 1 epoch\n  "
      "keep: 2\n",
      model, data, epochs_of(training), batch_of(training), kSlices, batch_of(training) / kSlices,
      kSlices);
}

std::string job_for(const LabelledArrays& found, const std::string& path) {
  return labelled_job(
      model_of(found),
      fmt::format("data:\n  type: idx\n  path: {}\n{}", quoted(path), pixels_of(found)),
      found.training);
}

std::string job_for(const ImageFolders& found, const std::string&) {
  return labelled_job(model_of(found.pictures), data_of(found), found.pictures.training);
}

std::string job_for(const LabelledTable& found, const std::string& path) {
  return labelled_job(mlp_of(std::ssize(found.classes)), data_of(found, path), found.training);
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

Status check_enough(bool enough, const app::DataFound& found) {
  if (enough) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[init] there is too little to learn from: {}; a job takes at least {} "
                          "samples to train with, one to be measured on, and two classes",
                          describe(found), kSlices));
}

bool is_enough(const LabelledArrays& found) {
  return found.training >= kSlices && found.validation > 0 && found.classes >= 2;
}

Status check(const LabelledArrays& found) { return check_enough(is_enough(found), found); }
Status check(const ImageFolders& found) { return check_enough(is_enough(found.pictures), found); }
Status check(const LabelledTable& found) {
  return check_enough(found.training >= kSlices && found.classes.size() >= 2, found);
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

std::string words(const ImageFolders& found) {
  const std::string numbers = words(found.pictures);
  return found.gray ? numbers + ", gray" : numbers;
}

std::string words(const LabelledTable& found) {
  return fmt::format("{} + {} rows of {} in {} classes", observe::grouped(found.training),
                     observe::grouped(found.validation), counted(found.columns, "column"),
                     found.classes.size());
}

std::string words(const PlainText& found) {
  return fmt::format("{} of text", format_bytes(found.bytes));
}

}  // namespace

Result<std::string> starter_job(const app::DataFound& found, const std::string& path) {
  if (utf8_prefix(path) != path.size())
    return fail(ErrorCode::kInvalid,
                fmt::format("[init] the path {} is no UTF-8, and job files are; give the data "
                            "another name, or a link of one",
                            path));
  MUSTER_TRY(std::visit([](const auto& data) { return check(data); }, found));
  return fmt::format("# {}: {}.\n# Every field, its default and its meaning: muster help job\n\n{}",
                     in_comment(path), describe(found),
                     std::visit([&](const auto& data) { return job_for(data, path); }, found));
}

std::string describe(const app::DataFound& found) {
  return std::visit([](const auto& data) { return words(data); }, found);
}

}  // namespace muster::cli
