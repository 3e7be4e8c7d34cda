#include "muster/cluster/member_columns.h"

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/number.h"

namespace muster::cluster {
namespace {

// A few bytes may announce very many: more are refused, and so are names of more bytes in all than
// a frame has.
constexpr std::size_t kMostMembers = std::size_t{1} << 20;
constexpr std::size_t kMostText = std::size_t{64} << 20;

constexpr std::int32_t kNoPort = -1;

// The differences, each once or as [difference, times]. Names of fields, hosts and numbers in full
// would be nine tenths of the bytes, and all are told of all.
class ColumnWriter {
 public:
  void add(std::int64_t number) {
    const std::int64_t difference = number - last_;
    last_ = number;
    if (times_ > 0 && difference != difference_) end_run();
    difference_ = difference;
    ++times_;
  }
  nlohmann::json take() {
    if (times_ > 0) end_run();
    return std::move(runs_);
  }

 private:
  void end_run() {
    if (times_ == 1)
      runs_.push_back(difference_);
    else
      runs_.push_back(nlohmann::json::array({difference_, times_}));
    times_ = 0;
  }

  nlohmann::json runs_ = nlohmann::json::array();
  std::int64_t last_ = 0;
  std::int64_t difference_ = 0;
  std::size_t times_ = 0;
};

std::vector<std::int32_t> read_column(const nlohmann::json& runs) {
  using Limits = std::numeric_limits<std::int32_t>;
  constexpr std::int64_t kWidest = std::int64_t{Limits::max()} - Limits::min();
  if (!runs.is_array()) throw std::invalid_argument("a column");
  std::vector<std::int32_t> numbers;
  std::int64_t last = 0;
  for (const nlohmann::json& run : runs) {
    const bool repeats = run.is_array();
    const auto difference = (repeats ? run.at(0) : run).get<std::int64_t>();
    const auto times = repeats ? run.at(1).get<std::size_t>() : 1;
    if (difference < -kWidest || difference > kWidest) throw std::out_of_range("a difference");
    if (times > kMostMembers - numbers.size()) throw std::out_of_range("too many members");
    for (std::size_t i = 0; i < times; ++i) {
      last += difference;
      if (last < Limits::min() || last > Limits::max()) throw std::out_of_range("a number");
      numbers.push_back(static_cast<std::int32_t>(last));
    }
  }
  return numbers;
}

// Each name once; members have its place.
template <class Name>
class NameTable {
 public:
  std::int64_t place_of(const Name& name) {
    const auto [found, is_new] =
        places_.try_emplace(name, static_cast<std::int64_t>(places_.size()));
    if (is_new) names_.push_back(nlohmann::json(name));
    return found->second;
  }
  nlohmann::json take() { return std::move(names_); }

 private:
  std::map<Name, std::int64_t> places_;
  nlohmann::json names_ = nlohmann::json::array();
};

// "host:" and the port; of what is none, all and kNoPort.
std::pair<std::string, std::int32_t> cut_door(const std::string& door) {
  const auto colon = door.rfind(':');
  if (colon != std::string::npos) {
    const std::string text = door.substr(colon + 1);
    const auto port = number_from<std::uint16_t>(text);
    if (port && std::to_string(*port) == text) return {door.substr(0, colon + 1), *port};
  }
  return {door, kNoPort};
}

bool flag(std::int32_t number) {
  if (number != 0 && number != 1) throw std::out_of_range("neither true nor false");
  return number == 1;
}

// As they were read, all of one length.
struct MemberColumns {
  explicit MemberColumns(const nlohmann::json& columns)
      : host(read_column(columns.at("host"))),
        worker(read_column(columns.at("worker"))),
        pid(read_column(columns.at("pid"))),
        place(read_column(columns.at("place"))),
        port(read_column(columns.at("port"))),
        can_lead(read_column(columns.at("can_lead"))),
        has_state(read_column(columns.at("has_state"))) {
    for (const auto* column : {&worker, &pid, &place, &port, &can_lead, &has_state})
      if (column->size() != host.size()) throw std::out_of_range("columns of different lengths");
  }

  std::vector<std::int32_t> host, worker, pid, place, port, can_lead, has_state;
};

}  // namespace

nlohmann::json to_columns(const std::vector<MemberInfo>& members) {
  NameTable<std::pair<std::string, std::string>> hosts;
  NameTable<std::string> places;
  ColumnWriter host, worker, pid, place, port, can_lead, has_state;
  for (const auto& [rank, info] : members) {
    const auto [where, number] = cut_door(info.door);
    host.add(hosts.place_of({info.host, info.boot_id}));
    worker.add(info.worker);
    pid.add(info.pid);
    place.add(places.place_of(where));
    port.add(number);
    can_lead.add(info.can_lead ? 1 : 0);
    has_state.add(info.has_state ? 1 : 0);
  }
  return {{"hosts", hosts.take()}, {"host", host.take()},         {"worker", worker.take()},
          {"pid", pid.take()},     {"places", places.take()},     {"place", place.take()},
          {"port", port.take()},   {"can_lead", can_lead.take()}, {"has_state", has_state.take()}};
}

std::vector<MemberInfo> from_columns(const nlohmann::json& columns) {
  const MemberColumns read(columns);
  const nlohmann::json& hosts = columns.at("hosts");
  const nlohmann::json& places = columns.at("places");
  std::vector<MemberInfo> members(read.host.size());
  std::size_t text = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const nlohmann::json& host = hosts.at(static_cast<std::size_t>(read.host[i]));
    members[i].rank = Rank{static_cast<std::int32_t>(i)};
    WorkerInfo& info = members[i].info;
    host.at(0).get_to(info.host);
    host.at(1).get_to(info.boot_id);
    places.at(static_cast<std::size_t>(read.place[i])).get_to(info.door);
    if (read.port[i] != kNoPort) info.door += std::to_string(read.port[i]);
    info.worker = read.worker[i];
    info.pid = read.pid[i];
    info.can_lead = flag(read.can_lead[i]);
    info.has_state = flag(read.has_state[i]);
    text += info.host.size() + info.boot_id.size() + info.door.size();
    if (text > kMostText) throw std::out_of_range("too many names");
  }
  return members;
}

}  // namespace muster::cluster
