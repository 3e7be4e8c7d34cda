#include "muster/app/data/data_card.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace muster::app {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered feature_json(const data::CsvFeature& feature) {
  if (feature.is_numeric)
    return {{"column", feature.column}, {"mean", feature.mean}, {"std", feature.std}};
  return {{"column", feature.column}, {"words", feature.words}};
}

std::string text_of(std::uint64_t fingerprint) { return fmt::format("{:016x}", fingerprint); }

// Names of folders may be in any encoding.
std::string dumped(const Ordered& object) {
  return object.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_json(const DataCard& card) {
  Ordered object = {{"samples", {{"training", card.training}, {"validation", card.validation}}},
                    {"fingerprint", text_of(card.fingerprint)}};
  if (!card.classes.empty()) object["classes"] = card.classes;
  if (!card.target.empty()) {
    object["target"] = card.target;
    object["features"] = Ordered::array();
    for (const data::CsvFeature& feature : card.features)
      object["features"].push_back(feature_json(feature));
  }
  return dumped(object);
}

Status keep_data_card(Files& files, const Path& path, const DataCard& card) {
  if (!files.exists(path)) return write_atomically(files, path, to_json(card));
  MUSTER_ASSIGN(const std::string text, files.read(path));
  const Ordered kept = Ordered::parse(text, nullptr, false);
  if (!kept.is_object() || !kept.contains("fingerprint"))
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("[worker/data] {} does not say what the run was begun with", path.string()));
  if (kept["fingerprint"] == text_of(card.fingerprint)) return ok();
  const Ordered::json_pointer training("/samples/training");
  const bool counts = kept.contains(training) && kept[training].is_number_integer();
  const auto count = counts ? kept[training].get<std::int64_t>() : -1;
  const std::string change =
      count == card.training
          ? "other samples, though as many to train on"
          : fmt::format("{} samples to train on then, {} now", count, card.training);
  return fail(ErrorCode::kInvalid,
              fmt::format("[worker/data] the data is not what this run began with ({}): some would "
                          "be measured on that were trained on; put it back, or take the weights "
                          "into a new run (model.weights). See {}",
                          change, path.string()));
}

}  // namespace muster::app
