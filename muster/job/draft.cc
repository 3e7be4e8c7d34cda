#include "muster/job/draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/job/fields.h"

namespace muster::job {

Origin Draft::origin_of(std::string_view field) const {
  if (const auto found = assigned.find(field); found != assigned.end()) return found->second.origin;
  if (const auto found = derived.find(field); found != derived.end()) return found->second;
  return {};
}

std::string Draft::shown(std::string_view field) const {
  return fmt::format("{} ({})", table->find(field)->print(spec).text, describe(origin_of(field)));
}

Place Draft::place_near(std::string_view field) const {
  for (auto dot = field.rfind('.'); dot != field.npos; dot = field.rfind('.')) {
    field = field.substr(0, dot);
    if (const auto found = section_places.find(field); found != section_places.end())
      return found->second;
  }
  return top;
}

void Draft::derive(std::string_view field, std::string how) {
  derived[std::string(field)] = {Origin::Kind::kDerived, 0, std::move(how)};
}

void Draft::refuse(std::string_view cause, std::string_view field, std::string_view why,
                   std::string help) {
  complain({field, cause},
           fmt::format("{} {} {}; {} is {}", cause, shown(cause), why, field, shown(field)),
           std::move(help));
}

void Draft::complain(std::initializer_list<std::string_view> fields, std::string message,
                     std::string help) {
  const auto is_faulty = [&](std::string_view field) { return faulty.contains(field); };
  if (std::any_of(fields.begin(), fields.end(), is_faulty)) return;
  Place place = fields.size() == 0 ? top : place_near(*fields.begin());
  auto strongest = Origin::Kind::kDefault;
  for (const auto field : fields) {
    const auto found = assigned.find(field);
    if (found == assigned.end() || found->second.origin.kind <= strongest) continue;
    strongest = found->second.origin.kind;
    place = found->second.place;
  }
  errors.push_back({std::move(place), std::move(message), std::move(help)});
}

std::string multiples_beside(std::int64_t number, std::int64_t of) {
  const std::int64_t below = number / of * of;
  return below > 0 ? fmt::format("{} or {}", below, below + of) : fmt::format("{}", of);
}

}  // namespace muster::job
