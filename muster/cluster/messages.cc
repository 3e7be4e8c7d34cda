#include "muster/cluster/messages.h"

#include <fmt/format.h>

#include <utility>

#include "muster/cluster/message_parts.h"

namespace muster::cluster {
namespace {

constexpr int kLastSignal = 64;

// One row for each message: its name on the wire, and both directions.
template <class M>
struct Row;

template <>
struct Row<Join> {
  static constexpr std::string_view kName = "join";
  static Json write(const Join& m) {
    Json json = to_json(m.info);
    json["version"] = m.version;
    write_wall(json, m.wall);
    return json;
  }
  static Join read(const Json& json) {
    return {worker_info(json), json.value("version", std::string()), read_wall(json)};
  }
};

template <>
struct Row<Enlist> {
  static constexpr std::string_view kName = "enlist";
  static Json write(const Enlist& m) {
    Json json = {{"host", m.host},
                 {"pid", m.pid},
                 {"worker", m.worker},
                 {"version", m.version},
                 {"boot_id", m.boot_id}};
    write_wall(json, m.wall);
    return json;
  }
  static Enlist read(const Json& json) {
    return {json.at("host").get<std::string>(),     json.at("pid").get<std::int32_t>(),
            json.value("worker", std::int32_t{-1}), json.value("version", std::string()),
            json.value("boot_id", std::string()),   read_wall(json)};
  }
};

template <>
struct Row<Enlisted> {
  static constexpr std::string_view kName = "enlisted";
  static Json write(const Enlisted& m) {
    return {
        {"worker", m.worker}, {"workers", m.workers}, {"run_folder", m.run_folder}, {"job", m.job}};
  }
  static Enlisted read(const Json& json) {
    return {json.at("worker").get<std::int32_t>(), json.at("workers").get<std::int32_t>(),
            json.at("run_folder").get<std::string>(), json.at("job").get<std::string>()};
  }
};

template <>
struct Row<Ended> {
  static constexpr std::string_view kName = "ended";
  static Json write(const Ended& m) {
    Json json = to_json(m.end);
    json["progress"] = to_json(m.progress);
    json["last_lines"] = m.last_lines;
    return json;
  }
  static Ended read(const Json& json) {
    return {.end = process_end(json),
            .progress = progress(json.at("progress")),
            .last_lines = json.at("last_lines").get<std::vector<std::string>>()};
  }
};

template <>
struct Row<Heartbeat> {
  static constexpr std::string_view kName = "heartbeat";
  static Json write(const Heartbeat& m) { return to_json(m.progress); }
  static Heartbeat read(const Json& json) { return {progress(json)}; }
};

template <>
struct Row<Report> {
  static constexpr std::string_view kName = "report";
  static Json write(const Report& m) { return binary(m.content); }
  static Report read(const Json& json) { return {bytes(json)}; }
};

template <>
struct Row<Failure> {
  static constexpr std::string_view kName = "failure";
  static Json write(const Failure& m) {
    return {{"error", to_json(m.error)},
            {"progress", to_json(m.progress)},
            {"concerns", static_cast<std::uint8_t>(m.concerns)},
            {"generation", to_int(m.generation)}};
  }
  static Failure read(const Json& json) {
    return {error(json.at("error")),
            json.contains("progress") ? progress(json.at("progress")) : Progress{},
            json.contains("concerns") ? checked_enum(json.at("concerns"), Concerns::kItsHost)
                                      : Concerns::kAll,
            Generation{json.value("generation", std::uint64_t{0})}};
  }
};

template <>
struct Row<Quarantine> {
  static constexpr std::string_view kName = "quarantine";
  static Json write(const Quarantine& m) { return to_json(m.why); }
  static Quarantine read(const Json& json) { return {error(json)}; }
};

template <>
struct Row<Suspect> {
  static constexpr std::string_view kName = "suspect";
  static Json write(const Suspect& m) {
    return {{"generation", to_int(m.generation)}, {"why", to_json(m.why)}};
  }
  static Suspect read(const Json& json) {
    return {Generation{json.at("generation").get<std::uint64_t>()}, error(json.at("why"))};
  }
};

template <>
struct Row<Reached> {
  static constexpr std::string_view kName = "reached";
  static Json write(const Reached& m) { return m.workers; }
  static Reached read(const Json& json) { return {json.get<std::vector<std::int32_t>>()}; }
};

template <>
struct Row<Unreached> {
  static constexpr std::string_view kName = "unreached";
  static Json write(const Unreached& m) { return {{"worker", m.worker}, {"why", m.why}}; }
  static Unreached read(const Json& json) {
    return {json.at("worker").get<std::int32_t>(), json.at("why").get<std::string>()};
  }
};

template <>
struct Row<Reach> {
  static constexpr std::string_view kName = "reach";
  static Json write(const Reach& m) {
    Json workers = Json::array();
    for (const WorkerInfo& worker : m.workers) workers.push_back(to_json(worker));
    return workers;
  }
  static Reach read(const Json& json) {
    Reach m;
    for (const auto& worker : json) m.workers.push_back(worker_info(worker));
    return m;
  }
};

template <>
struct Row<Knock> {
  static constexpr std::string_view kName = "knock";
  static Json write(const Knock& m) { return m.door; }
  static Knock read(const Json& json) { return {json.get<std::string>()}; }
};

template <>
struct Row<Knocked> {
  static constexpr std::string_view kName = "knocked";
  static Json write(const Knocked& m) { return m.why; }
  static Knocked read(const Json& json) { return {json.get<std::string>()}; }
};

template <>
struct Row<Dumped> {
  static constexpr std::string_view kName = "dumped";
  static Json write(const Dumped& m) { return binary(m.content); }
  static Dumped read(const Json& json) { return {bytes(json)}; }
};

template <class M>
struct EmptyRow {
  static Json write(const M&) { return Json::object(); }
  static M read(const Json&) { return {}; }
};

template <>
struct Row<Leave> {
  static constexpr std::string_view kName = "leave";
  static Json write(const Leave& m) { return m.signal; }
  static Leave read(const Json& json) {
    const Leave m{json.get<int>()};
    if (m.signal < 0 || m.signal > kLastSignal) throw std::out_of_range("signal");
    return m;
  }
};

template <>
struct Row<Whole> : EmptyRow<Whole> {
  static constexpr std::string_view kName = "whole";
};

template <>
struct Row<Stay> : EmptyRow<Stay> {
  static constexpr std::string_view kName = "stay";
};

template <>
struct Row<Drain> {
  static constexpr std::string_view kName = "drain";
  static Json write(const Drain& m) { return {{"can_stay", m.can_stay}}; }
  static Drain read(const Json& json) { return {json.at("can_stay").get<bool>()}; }
};

template <>
struct Row<AskTime> {
  static constexpr std::string_view kName = "ask_time";
  static Json write(const AskTime& m) { return nanoseconds(m.asked); }
  static AskTime read(const Json& json) { return {time_point(json)}; }
};

template <>
struct Row<TellTime> {
  static constexpr std::string_view kName = "tell_time";
  static Json write(const TellTime& m) {
    return {{"asked", nanoseconds(m.asked)}, {"told", nanoseconds(m.told)}};
  }
  static TellTime read(const Json& json) {
    return {time_point(json.at("asked")), time_point(json.at("told"))};
  }
};

template <>
struct Row<Dismiss> {
  static constexpr std::string_view kName = "dismiss";
  static Json write(const Dismiss& m) { return to_int(m.generation); }
  static Dismiss read(const Json& json) { return {Generation{json.get<std::uint64_t>()}}; }
};

template <>
struct Row<StoreRequest> {
  static constexpr std::string_view kName = "store_request";
  static Json write(const StoreRequest& m) {
    return {{"id", m.id},
            {"action", static_cast<std::uint8_t>(m.action)},
            {"key", m.key},
            {"value", binary(m.value)},
            {"expected", binary(m.expected)},
            {"delta", m.delta}};
  }
  static StoreRequest read(const Json& json) {
    return {json.at("id").get<std::uint64_t>(),
            checked_enum(json.at("action"), StoreAction::kCompareExchange),
            json.at("key").get<std::string>(),
            bytes(json.at("value")),
            bytes(json.at("expected")),
            json.at("delta").get<std::int64_t>()};
  }
};

template <>
struct Row<Welcome> {
  static constexpr std::string_view kName = "welcome";
  static Json write(const Welcome& m) {
    Json members = Json::array();
    for (const auto& member : m.members) members.push_back(to_json(member.info));
    return {{"generation", to_int(m.generation)},
            {"rank", to_int(m.rank)},
            {"members", members},
            {"planned", m.planned}};
  }
  static Welcome read(const Json& json) {
    Welcome m{Generation{json.at("generation").get<std::uint64_t>()},
              Rank{json.at("rank").get<std::int32_t>()},
              {},
              json.at("planned").get<bool>()};
    std::vector<MemberInfo> members;
    for (const auto& member : json.at("members")) {
      const Rank rank{static_cast<std::int32_t>(members.size())};
      members.push_back({rank, worker_info(member)});
    }
    m.members = std::move(members);
    const bool is_beyond = to_int(m.rank) >= static_cast<std::int64_t>(m.members.size());
    if (to_int(m.rank) < -1 || (is_beyond && !m.members.empty())) throw std::out_of_range("rank");
    return m;
  }
};

template <>
struct Row<Stop> {
  static constexpr std::string_view kName = "stop";
  static Json write(const Stop& m) { return static_cast<std::uint8_t>(m.reason); }
  static Stop read(const Json& json) { return {checked_enum(json, StopReason::kAtOnce)}; }
};

template <>
struct Row<Dump> {
  static constexpr std::string_view kName = "dump";
  static Json write(const Dump& m) { return m.stacks; }
  static Dump read(const Json& json) { return {json.get<bool>()}; }
};

template <>
struct Row<StoreReply> {
  static constexpr std::string_view kName = "store_reply";
  static Json write(const StoreReply& m) {
    return {{"id", m.id}, {"value", binary(m.value)}, {"number", m.number}};
  }
  static StoreReply read(const Json& json) {
    return {json.at("id").get<std::uint64_t>(), bytes(json.at("value")),
            json.at("number").get<std::int64_t>()};
  }
};

template <>
struct Row<Attend> {
  static constexpr std::string_view kName = "attend";
  static Json write(const Attend& m) {
    return {{"number", m.number}, {"host", m.host},       {"boot_id", m.boot_id}, {"pid", m.pid},
            {"cores", m.cores},   {"version", m.version}, {"job", to_json(m.job)}};
  }
  static Attend read(const Json& json) {
    return {json.at("number").get<std::int32_t>(),
            json.at("host").get<std::string>(),
            json.value("boot_id", std::string()),
            json.at("pid").get<std::int32_t>(),
            json.value("cores", std::vector<std::int32_t>()),
            json.value("version", std::string()),
            json.contains("job") ? given_job(json.at("job")) : GivenJob{}};
  }
};

template <>
struct Row<ProcessOutput> {
  static constexpr std::string_view kName = "process_output";
  static Json write(const ProcessOutput& m) {
    return {{"id", m.id}, {"is_error", m.is_error}, {"text", binary(m.text)}};
  }
  static ProcessOutput read(const Json& json) {
    return {json.at("id").get<std::uint64_t>(), json.at("is_error").get<bool>(),
            bytes(json.at("text"))};
  }
};

template <>
struct Row<ProcessEnded> {
  static constexpr std::string_view kName = "process_ended";
  static Json write(const ProcessEnded& m) { return {{"id", m.id}, {"end", to_json(m.end)}}; }
  static ProcessEnded read(const Json& json) {
    return {json.at("id").get<std::uint64_t>(), process_end(json.at("end"))};
  }
};

template <>
struct Row<StartProcess> {
  static constexpr std::string_view kName = "start_process";
  static Json write(const StartProcess& m) { return {{"id", m.id}, {"input", m.input}}; }
  static StartProcess read(const Json& json) {
    return {json.at("id").get<std::uint64_t>(), json.at("input").get<std::string>()};
  }
};

template <>
struct Row<KillProcess> {
  static constexpr std::string_view kName = "kill_process";
  static Json write(const KillProcess& m) { return m.id; }
  static KillProcess read(const Json& json) { return {json.get<std::uint64_t>()}; }
};

template <>
struct Row<JobOver> {
  static constexpr std::string_view kName = "job_over";
  static Json write(const JobOver& m) { return m.exit_code; }
  static JobOver read(const Json& json) { return {json.get<std::int32_t>()}; }
};

template <std::size_t... I>
Result<Message> read_row(std::string_view kind, const Json& body, std::index_sequence<I...>) {
  std::optional<Message> message;
  const auto try_row = [&]<class M>() {
    if (!message && Row<M>::kName == kind) message = Row<M>::read(body);
  };
  (try_row.template operator()<std::variant_alternative_t<I, Message>>(), ...);
  if (message) return *std::move(message);
  return fail(ErrorCode::kUnsupported,
              fmt::format("[cluster/messages] unknown message \"{}\"", kind));
}

}  // namespace

std::string describe(const Progress& progress) {
  return fmt::format("at step {}{}{}{}{}", to_int(progress.step),
                     progress.phase.empty() ? "" : ", ", progress.phase,
                     progress.operation.empty() ? "" : ", in ", progress.operation);
}

std::string_view name(const Message& message) noexcept {
  return std::visit([]<class M>(const M&) { return Row<M>::kName; }, message);
}

Bytes encode(const Message& message) {
  return std::visit(
      []<class M>(const M& m) {
        return net::encode_message(kControlVersion, Row<M>::kName, Row<M>::write(m));
      },
      message);
}

Result<Message> decode(std::span<const std::byte> payload) {
  Json body;
  MUSTER_ASSIGN(const auto kind, net::decode_message(kControlVersion, payload, body));
  try {
    return read_row(kind, body, std::make_index_sequence<std::variant_size_v<Message>>());
  } catch (const std::exception& error) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[cluster/messages] a bad \"{}\" message: {}", kind, error.what()));
  }
}

}  // namespace muster::cluster
