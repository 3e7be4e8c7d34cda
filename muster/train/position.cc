#include "muster/train/position.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "muster/observe/record_codec.h"

namespace muster::train {

using nlohmann::json;

namespace {

// Metrics of a program's own may be anything, which JSON has no words for: as their bits.
json to_json_of(const Position& position) {
  json metrics = json::array();
  for (const observe::Metric& metric : position.last_evaluation)
    metrics.push_back({metric.name, std::bit_cast<std::uint64_t>(metric.value)});
  json paces = json::array();
  for (const Pace& pace : position.paces) paces.push_back(pace.pack());
  const std::vector<float> flags(position.flags.data(),
                                 position.flags.data() + parallel::Flags::size());
  json object = {{"progress", to_json(position.progress)},
                 {"settled", position.settled},
                 {"flags", flags},
                 {"next", static_cast<int>(position.next)},
                 {"last_evaluation", std::move(metrics)},
                 {"rollbacks", position.rollbacks},
                 {"paces", std::move(paces)},
                 {"steps_above", position.losses.steps_above},
                 {"doubtful", position.losses.doubtful},
                 {"owes_save", position.owes_save}};
  if (position.losses.smoothed) object["smoothed"] = *position.losses.smoothed;
  if (position.begun)
    object["begun"] = {to_int(position.begun->step), to_int(position.begun->generation)};
  if (position.evaluated) object["evaluated"] = to_int(*position.evaluated);
  return object;
}

Result<Position> position_of(const json& object) {
  Position position;
  MUSTER_ASSIGN(position.progress, progress_from_json(object.at("progress").get<std::string>()));
  position.settled = object.at("settled");
  const auto flags = object.at("flags").get<std::vector<float>>();
  std::copy_n(flags.begin(), std::min(flags.size(), parallel::Flags::size()),
              position.flags.data());
  position.next = static_cast<Next>(object.at("next").get<int>());
  for (const json& metric : object.at("last_evaluation"))
    position.last_evaluation.push_back(
        {metric.at(0), std::bit_cast<double>(metric.at(1).get<std::uint64_t>())});
  position.rollbacks = object.at("rollbacks");
  for (const json& pace : object.at("paces"))
    position.paces.push_back(Pace::unpack(pace.get<std::array<double, Pace::kWords>>().data()));
  position.losses.steps_above = object.at("steps_above");
  position.losses.doubtful = object.at("doubtful");
  position.owes_save = object.at("owes_save");
  if (object.contains("smoothed")) position.losses.smoothed = object.at("smoothed").get<double>();
  if (object.contains("begun"))
    position.begun = BegunSave{Step{object.at("begun").at(0).get<std::int64_t>()},
                               Generation{object.at("begun").at(1).get<std::uint64_t>()}};
  if (object.contains("evaluated"))
    position.evaluated = Step{object.at("evaluated").get<std::int64_t>()};
  return position;
}

}  // namespace

// One line of JSON, then the rows as observe's own records.
std::string encode(const Position& position) {
  const auto rows =
      observe::encode(std::vector<observe::Record>(position.rows.begin(), position.rows.end()));
  std::string text = to_json_of(position).dump() + "\n";
  text.append(reinterpret_cast<const char*>(rows.data()), rows.size());
  return text;
}

Result<Position> decode_position(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  try {
    MUSTER_ASSIGN(Position position, position_of(json::parse(text.substr(0, end))));
    const std::string_view rows = text.substr(std::min(end + 1, text.size()));
    MUSTER_ASSIGN(auto told, observe::decode(std::as_bytes(std::span(rows))));
    position.rows.assign(std::make_move_iterator(told.begin()),
                         std::make_move_iterator(told.end()));
    return position;
  } catch (const json::exception& exception) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[train/recovery] another rank's position is not readable: {}",
                            exception.what()));
  }
}

}  // namespace muster::train
