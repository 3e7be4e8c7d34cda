#include <fmt/format.h>

#include "muster/storage/object_store.h"

namespace muster::storage {
namespace {

bool is_plain_part(std::string_view part) {
  return !part.empty() && part != "." && part != ".." && part.find('\0') == part.npos;
}

}  // namespace

Status check_object_name(std::string_view name) {
  std::string_view rest = name;
  while (true) {
    const std::size_t slash = rest.find('/');
    if (!is_plain_part(rest.substr(0, slash))) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("[storage] `{}` is no name of an object; write a relative path of "
                              "plain parts, as in `runs/a/model.bin`",
                              name));
    }
    if (slash == rest.npos) return ok();
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace muster::storage
