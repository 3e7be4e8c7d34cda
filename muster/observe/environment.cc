#include "muster/observe/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "muster/base/trimmed.h"
#include "muster/observe/record_value.h"

namespace muster::observe {
namespace {

constexpr std::string_view kBlanks = " \t\n";
constexpr std::string_view kInstructionSets[] = {
    "avx", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd", "sve"};

// Calls visit(key, value) for each "key : value" line of a /proc file.
template <class Visit>
void each_entry(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t colon = line.find(':');
    if (colon != line.npos)
      visit(trimmed(line.substr(0, colon), kBlanks), trimmed(line.substr(colon + 1), kBlanks));
  }
}

std::vector<std::string> known_sets(std::string_view flags) {
  const std::string padded = fmt::format(" {} ", flags);
  std::vector<std::string> found;
  for (const std::string_view set : kInstructionSets) {
    if (padded.find(fmt::format(" {} ", set)) != padded.npos) found.emplace_back(set);
  }
  return found;
}

void read_cpu(std::string_view cpuinfo, Environment& environment) {
  each_entry(cpuinfo, [&environment](std::string_view key, std::string_view value) {
    if (key == "processor") ++environment.cores;
    if (key == "model name") environment.cpu = value;
    if (key == "flags" || key == "Features") environment.instruction_sets = known_sets(value);
  });
}

// The bytes of an entry that /proc gives in KiB; 0 where it is not there.
std::uint64_t bytes_of(std::string_view text, std::string_view entry) {
  std::uint64_t kib = 0;
  each_entry(text, [&](std::string_view key, std::string_view value) {
    if (key == entry) std::from_chars(value.data(), value.data() + value.size(), kib);
  });
  return kib * 1024;
}

std::string read_or_empty(Files& files, const Path& path) {
  const Result<std::string> text = files.read(path);
  return text ? *text : std::string();
}

}  // namespace

Environment read_environment(Files& files) {
  Environment environment;
  const std::string host = read_or_empty(files, "/proc/sys/kernel/hostname");
  const std::string system = read_or_empty(files, "/proc/sys/kernel/ostype");
  const std::string release = read_or_empty(files, "/proc/sys/kernel/osrelease");
  environment.host = trimmed(host, kBlanks);
  environment.system =
      std::string(trimmed(system, kBlanks)) + " " + std::string(trimmed(release, kBlanks));
  environment.system = trimmed(std::string(environment.system), kBlanks);
  read_cpu(read_or_empty(files, "/proc/cpuinfo"), environment);
  environment.memory_bytes = bytes_of(read_or_empty(files, "/proc/meminfo"), "MemTotal");
  return environment;
}

std::uint64_t peak_memory(Files& files) {
  return bytes_of(read_or_empty(files, "/proc/self/status"), "VmHWM");
}

std::uint64_t resident_memory(Files& files) {
  return bytes_of(read_or_empty(files, "/proc/self/status"), "VmRSS");
}

std::uint64_t resident_memory(Files& files, int pid) {
  return bytes_of(read_or_empty(files, fmt::format("/proc/{}/status", pid)), "VmRSS");
}

std::string to_json(const Environment& environment) {
  Value versions = Value::object();
  for (const auto& [name, version] : environment.versions) versions[name] = version;
  const Value value{{"host", environment.host},
                    {"system", environment.system},
                    {"cpu", environment.cpu},
                    {"cores", environment.cores},
                    {"memory_bytes", environment.memory_bytes},
                    {"instruction_sets", environment.instruction_sets},
                    {"versions", versions}};
  return value.dump(2) + "\n";
}

Result<Environment> environment_from_json(std::string_view text) {
  try {
    const Value value = Value::parse(text);
    Environment environment;
    value.at("host").get_to(environment.host);
    value.at("system").get_to(environment.system);
    value.at("cpu").get_to(environment.cpu);
    value.at("cores").get_to(environment.cores);
    value.at("memory_bytes").get_to(environment.memory_bytes);
    value.at("instruction_sets").get_to(environment.instruction_sets);
    for (const auto& [name, version] : value.at("versions").items()) {
      environment.versions.emplace_back(name, version.get<std::string>());
    }
    return environment;
  } catch (const std::exception& error) {  // of nlohmann
    return fail(ErrorCode::kCorrupt, std::string("[observe/environment] ") + error.what());
  }
}

}  // namespace muster::observe
