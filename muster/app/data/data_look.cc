#include "muster/app/data/data_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "muster/app/data/data_files.h"
#include "muster/data/formats/idx/idx.h"

namespace muster::app {
namespace {

constexpr std::int64_t kLookedAt = 64 << 20;  // bytes of samples, evenly spread
constexpr std::size_t kMostKinds = 3;         // of files, that are told

std::string what_is_read() {
  const job::DataSpec data;  // with the names that a job expects by default
  return fmt::format(
      "muster reads a folder of IDX files ({}, {}, {}, {}, each plain or .gz) and text files; data "
      "of other kinds comes through a source of your own (docs/app.md)",
      data.train_images, data.train_labels, data.validation_images, data.validation_labels);
}

// Samples one by one, in memory of its own.
class Sample {
 public:
  explicit Sample(const data::Source& source) : source_(source) {
    for (const data::FieldSpec& field : source.fields()) {
      const auto bytes = static_cast<std::size_t>(data::byte_size(field));
      memory_.emplace_back(bytes);
      views_.push_back({field.dtype, field.shape, memory_.back()});
    }
  }
  Status read(std::int64_t index) { return source_.read(index, views_); }
  std::span<const std::byte> bytes(std::size_t field) const { return memory_[field]; }

 private:
  const data::Source& source_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<TensorView> views_;
};

struct Moments {
  std::uint64_t sum = 0, squares = 0, count = 0;
  void add(std::span<const std::byte> pixels) {
    for (const std::byte pixel : pixels) {
      const auto value = std::to_integer<std::uint64_t>(pixel);
      sum += value;
      squares += value * value;
    }
    count += pixels.size();
  }
  double mean() const { return static_cast<double>(sum) / static_cast<double>(count) / 255; }
  double deviation() const {
    const double square = static_cast<double>(squares) / static_cast<double>(count) / (255 * 255);
    return std::sqrt(std::max(0.0, square - mean() * mean()));
  }
};

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

// A channel that is the same everywhere is divided by nothing.
void note_moments(const std::vector<Moments>& channels, LabelledArrays& found) {
  for (const Moments& channel : channels) {
    found.mean.push_back(rounded(channel.mean()));
    found.std.push_back(channel.deviation() < 1e-4 ? 1.0 : rounded(channel.deviation()));
  }
}

std::int64_t label_in(std::span<const std::byte> bytes) {
  std::int64_t label = 0;
  std::memcpy(&label, bytes.data(), sizeof label);
  return label;
}

Status look_through(const data::Source& source, LabelledArrays& found) {
  Sample sample(source);
  const bool bytes = source.fields().front().dtype == DType::kU8;
  const std::size_t channels =
      found.shape.size() == 3 ? static_cast<std::size_t>(found.shape[0]) : 1;
  std::vector<Moments> moments(channels);
  const std::int64_t apart =
      1 + source.size() * data::byte_size(source.fields().front()) / kLookedAt;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    MUSTER_TRY(sample.read(i));
    found.classes = std::max(found.classes, label_in(sample.bytes(1)) + 1);
    if (!bytes || i % apart != 0) continue;
    const auto pixels = sample.bytes(0);
    const std::size_t each = pixels.size() / channels;
    for (std::size_t c = 0; c < channels; ++c) moments[c].add(pixels.subspan(c * each, each));
  }
  if (bytes) note_moments(moments, found);
  return ok();
}

Result<DataFound> look_at_idx(Files& files, const DataFiles& idx) {
  MUSTER_ASSIGN(const auto training,
                data::create_idx_source(files, {idx.train_images, idx.train_labels}));
  MUSTER_ASSIGN(const auto validation,
                data::create_idx_source(files, {idx.validation_images, idx.validation_labels}));
  LabelledArrays found{.training = training->size(),
                       .validation = validation->size(),
                       .shape = training->fields().front().shape,
                       .classes = 0,
                       .mean = {},
                       .std = {}};
  MUSTER_TRY(look_through(*training, found));
  return DataFound(std::move(found));
}

// "3 .png, 2 .txt"
std::string kinds_of(const std::vector<std::string>& names) {
  std::map<std::string, int> count;
  for (const std::string& name : names) ++count[Path(name).extension().string()];
  std::vector<std::pair<int, std::string>> kinds;
  kinds.reserve(count.size());
  for (const auto& [kind, files] : count) kinds.emplace_back(files, kind.empty() ? "others" : kind);
  std::ranges::sort(kinds, std::ranges::greater());
  std::string text;
  for (std::size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", kinds[i].first, kinds[i].second);
  return text.empty() ? "nothing" : text;
}

Result<DataFound> look_at_folder(Files& files, const Path& path,
                                 const std::vector<std::string>& names) {
  job::DataSpec data;
  data.path = path.string();
  const DataFiles idx = idx_files(files, data);
  for (const Path& part :
       {idx.train_images, idx.train_labels, idx.validation_images, idx.validation_labels}) {
    if (!files.exists(part))
      return fail(ErrorCode::kUnsupported,
                  fmt::format("[data/look] {} holds {}, and no {}; {}", path.string(),
                              kinds_of(names), part.filename().string(), what_is_read()));
  }
  return look_at_idx(files, idx);
}

// Of bytes that no text has.
Result<DataFound> look_at_file(Files& files, const Path& path, std::uint64_t bytes) {
  constexpr std::size_t kBeginning = 1 << 16;
  MUSTER_ASSIGN(const std::string beginning, files.read_up_to(path, kBeginning));
  if (beginning.find('\0') != beginning.npos)
    return fail(ErrorCode::kUnsupported,
                fmt::format("[data/look] {} is no text: it holds bytes that are zero; {}",
                            path.string(), what_is_read()));
  return DataFound(PlainText{bytes});
}

}  // namespace

Result<DataFound> look_at_data(Files& files, const Path& path) {
  if (!files.exists(path))
    return fail(ErrorCode::kNotFound, fmt::format("[data/look] there is no {}", path.string()));
  if (const auto names = files.list(path)) return look_at_folder(files, path, *names);
  MUSTER_ASSIGN(const std::uint64_t bytes, files.size(path));
  return look_at_file(files, path, bytes);
}

}  // namespace muster::app
