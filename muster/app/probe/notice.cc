#include "muster/app/probe/notice.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "muster/base/lowered.h"

namespace muster::app {
namespace {

constexpr std::string_view kNothing[] = {"false", "none"};

// {"DocumentIncarnation":1,"Events":[]}: an event has no list of that name.
bool is_without_events(std::string_view text) {
  return text.starts_with('{') && text.find("\"events\":[]") != text.npos;
}

}  // namespace

bool is_notice(const Answer& answer) {
  std::string text = lowered(answer.text);
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  if (text.empty()) return answer.asked != Asked::kAddress;
  return std::ranges::find(kNothing, text) == std::end(kNothing) && !is_without_events(text);
}

std::unique_ptr<Probe> watch_for_notice(ProbeSpec asked, Duration every,
                                        std::function<void(const std::string& from)> on_notice,
                                        Processes& processes, Files& files, const Logger& log) {
  if (asked.empty()) return nullptr;
  return std::make_unique<Probe>(
      std::move(asked), every,
      [on_notice = std::move(on_notice)](const Answer& answer) {
        if (is_notice(answer)) on_notice(answer.from);
      },
      processes, files, log);
}

}  // namespace muster::app
