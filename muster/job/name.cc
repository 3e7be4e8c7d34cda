#include "muster/job/name.h"

#include <algorithm>
#include <functional>

namespace muster::job {
namespace {

// File systems take 255 bytes; what muster puts behind a name (".compare", ".new") needs some.
constexpr std::size_t kLongestName = 200;

bool fits_a_name(char c) {
  constexpr std::string_view kOthers = "-_+.";
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
         static_cast<unsigned char>(c) >= 0x80 || kOthers.find(c) != kOthers.npos;
}

bool fits_its_beginning(char c) { return fits_a_name(c) && c != '-' && c != '+' && c != '.'; }

}  // namespace

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && fits_its_beginning(name.front()) &&
         std::ranges::all_of(name, fits_a_name);
}

std::string name_from(std::string_view text) {
  std::string name(text);
  std::ranges::replace_if(name, std::not_fn(fits_a_name), '-');
  if (!name.empty() && !fits_its_beginning(name.front())) name.front() = '_';
  return name;
}

}  // namespace muster::job
