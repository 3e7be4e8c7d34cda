#include "level_file.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tides {
namespace {

using muster::data::FieldSpec;

class Levels final : public muster::data::Source {
 public:
  Levels(std::vector<float> levels, std::int64_t hours, std::int64_t lead)
      : levels_(std::move(levels)),
        hours_(hours),
        lead_(lead),
        fields_{{"input", muster::DType::kF32, {hours}}, {"target", muster::DType::kF32, {1}}} {}

  std::int64_t size() const noexcept override { return std::ssize(levels_) - hours_ - lead_ + 1; }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }

  muster::Status read(std::int64_t index, std::span<const muster::TensorView> into) const override {
    const float* const first = levels_.data() + index;
    std::copy_n(first, hours_, into[0].as<float>().begin());
    into[1].as<float>()[0] = first[hours_ + lead_ - 1];
    return muster::ok();
  }

 private:
  std::vector<float> levels_;
  std::int64_t hours_, lead_;
  std::vector<FieldSpec> fields_;
};

muster::Result<std::vector<float>> read_levels(const std::string& text, const std::string& path) {
  std::vector<float> levels;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    float level = 0;
    if (words >> level && (words >> std::ws).eof()) {
      levels.push_back(level);
      continue;
    }
    return muster::fail(muster::ErrorCode::kInvalid,
                        "[tides] " + path + ":" + std::to_string(levels.size() + 1) +
                            ": expected a water level in metres, found `" + line + "`");
  }
  return levels;
}

}  // namespace

muster::Result<muster::data::SourcePtr> open_levels(const muster::DataRequest& request) {
  MUSTER_ASSIGN(const std::string text, request.files.read(request.path));
  MUSTER_ASSIGN(std::vector<float> levels, read_levels(text, request.path.string()));
  const auto split = levels.begin() + std::ssize(levels) * 4 / 5;
  if (request.part == muster::DataPart::kTraining)
    levels.erase(split, levels.end());
  else if (!request.is_apart)
    levels.erase(levels.begin(), split);
  return std::make_shared<Levels>(std::move(levels), request.options.integer("hours"),
                                  request.options.integer("lead"));
}

}  // namespace tides
