// Addresses at which a job asks the world around it.
#include <fmt/format.h>

#include "muster/job/draft.h"

namespace muster::job {
namespace {

constexpr std::string_view kScheme = "http://";

void check_address(Draft& draft, std::string_view field, std::string_view command,
                   const std::string& url) {
  if (url.empty() || url.starts_with(kScheme)) return;
  const std::string shown = excerpt(url);
  draft.complain({field}, fmt::format("{}: `{}` is no {} address", field, shown, kScheme),
                 fmt::format("muster asks over http alone; let curl ask: `{}: curl -sf {} || "
                             "exit 1`",
                             command, shown));
}

}  // namespace

void check_addresses(Draft& draft) {
  check_address(draft, "preemption.url", "preemption.command", draft.spec.preemption.url);
  check_address(draft, "autoscaling.url", "autoscaling.command", draft.spec.autoscaling.url);
}

}  // namespace muster::job
