#include "muster/job/host_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>

#include "muster/base/number.h"
#include "muster/base/trimmed.h"

namespace muster::job {
namespace {

constexpr std::int64_t kMostSlots = 65536;
constexpr std::string_view kAround = " \t\r\n";

std::optional<std::int64_t> slots_in(std::string_view text) {
  const auto number = number_from<std::int64_t>(text);
  return number && *number >= 1 && *number <= kMostSlots ? number : std::nullopt;
}

// What the shell there, or ssh's own command line, would take for something else is no name.
bool is_host_name(std::string_view name) {
  const auto fits = [](unsigned char c) {
    return c >= 0x80 || std::isalnum(c) != 0 ||
           std::string_view("-._:@%+").find(char(c)) != std::string_view::npos;
  };
  return !name.empty() && name.front() != '-' && std::ranges::all_of(name, fits);
}

// "node7", "node7:4", "[fe80::1]:4", "::1": of several colons none begins a number.
Result<HostSlots> parse_host(std::string_view word) {
  std::string_view name = word;
  std::string_view slots;
  const auto bracket = word.find(']');
  if (word.starts_with('[') && bracket != word.npos) {
    name = word.substr(1, bracket - 1);
    slots = word.substr(bracket + 1);
  } else if (const auto colon = word.find(':');
             colon != word.npos && word.find(':', colon + 1) == word.npos) {
    name = word.substr(0, colon);
    slots = word.substr(colon);
  }
  if (!is_host_name(name))
    return fail(ErrorCode::kInvalid, fmt::format("`{}` is no name of a host", word));
  if (slots.empty()) return HostSlots{std::string(name)};
  const auto number = slots.front() == ':' ? slots_in(slots.substr(1)) : std::nullopt;
  if (number) return HostSlots{std::string(name), *number};
  return fail(ErrorCode::kInvalid,
              fmt::format("`{}`: expected a number of workers from 1 to {} after the host's name",
                          word, kMostSlots));
}

void add_host(std::vector<HostSlots>& hosts, HostSlots more) {
  const auto known = std::ranges::find(hosts, more.name, &HostSlots::name);
  if (known == hosts.end()) {
    hosts.push_back(std::move(more));
  } else {
    known->slots += more.slots;
  }
}

Result<std::string> host_of_line(const std::string& line) {
  std::istringstream words(line);
  std::string host, rest;
  words >> host;
  if (!(words >> rest)) return host;
  constexpr std::string_view kSlots = "slots=";
  std::string more;
  if (rest.starts_with(kSlots) && !(words >> more) && host.find(':') == std::string::npos)
    return host + ":" + rest.substr(kSlots.size());
  return fail(ErrorCode::kInvalid,
              fmt::format("`{}`: expected a host's name and `slots=N`, if any", line));
}

}  // namespace

std::string to_string(const HostSlots& host) {
  const bool has_colon = host.name.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", has_colon ? "[" : "", host.name, has_colon ? "]" : "",
                     host.slots);
}

bool is_this_host_alone(std::string_view list) noexcept {
  return list == "localhost" || list == "127.0.0.1";
}

Result<std::vector<HostSlots>> parse_hosts(std::string_view list) {
  std::vector<HostSlots> hosts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    MUSTER_ASSIGN(auto host, parse_host(muster::trimmed(list.substr(begin, end - begin), kAround)));
    add_host(hosts, std::move(host));
    begin = end + 1;
  }
  return hosts;
}

Result<std::string> hosts_of_file(std::string_view text) {
  std::string list;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string said(muster::trimmed(line.substr(0, line.find('#')), kAround));
    if (said.empty()) continue;
    auto host = host_of_line(said);
    if (host)
      if (const auto parsed = parse_hosts(*host); !parsed) host = parsed.error();
    if (!host) return with_context(host.error(), fmt::format("line {}", number));
    list += (list.empty() ? "" : ", ") + *host;
  }
  if (!list.empty()) return list;
  return fail(ErrorCode::kInvalid, "it names no host");
}

std::int64_t slots_of(const std::vector<HostSlots>& hosts) noexcept {
  std::int64_t sum = 0;
  for (const HostSlots& host : hosts) sum += host.slots;
  return sum;
}

std::vector<std::string> first_slots(const std::vector<HostSlots>& hosts, std::int64_t workers) {
  std::vector<std::string> places;
  for (const HostSlots& host : hosts)
    for (std::int64_t slot = 0; slot < host.slots && std::ssize(places) < workers; ++slot)
      places.push_back(host.name);
  return places;
}

}  // namespace muster::job
