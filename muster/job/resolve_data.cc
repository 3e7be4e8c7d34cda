// What the data needs of its own fields.
#include <fmt/format.h>

#include "muster/base/lowered.h"
#include "muster/job/draft.h"

namespace muster::job {
namespace {

// Data of its own, or a part of that for training; resolved, only one of them is there.
void resolve_validation(Draft& draft) {
  auto& data = draft.spec.data;
  const bool splits = data.validation_split > 0;
  if (data.validation_path.empty() && !splits) {
    draft.complain({"data.validation_split", "data.validation_path"},
                   "data.validation_split 0 leaves nothing for evaluation",
                   "hold some of the data out, or name other data in data.validation_path");
  } else if (!data.validation_path.empty() && splits && draft.given("data.validation_split")) {
    draft.complain({"data.validation_split", "data.validation_path", "data.type"},
                   "data.validation_split and data.validation_path exclude each other",
                   "remove one of the two");
  } else if (!data.validation_path.empty() && splits) {
    data.validation_split = 0;
    draft.derive("data.validation_split", "data.validation_path is given");
  }
}

void check_moments(Draft& draft) {
  const auto& data = draft.spec.data;
  if (data.mean.size() == data.std.size()) return;
  draft.complain(
      {"data.mean", "data.std"},
      fmt::format("data.mean has {} values and data.std has {}", data.mean.size(), data.std.size()),
      "give one value a channel in both, or leave both out");
}

void resolve_delimiter(Draft& draft) {
  auto& data = draft.spec.data;
  std::string& delimiter = data.csv.delimiter;
  if (delimiter.empty()) {
    const std::string path = lowered(data.path);
    const bool tabs = path.ends_with(".tsv") || path.ends_with(".tsv.gz");
    delimiter = tabs ? "\t" : ",";
    draft.derive("data.delimiter", tabs ? "for a .tsv file" : "for a file that is no .tsv");
  }
  const bool is_one = delimiter.size() == 1 && static_cast<unsigned char>(delimiter[0]) < 0x80;
  if (is_one && std::string_view("\"\r\n").find(delimiter) == std::string_view::npos) return;
  draft.complain({"data.delimiter"},
                 fmt::format("data.delimiter: expected one character other than a quote and the "
                             "end of a line, found `{}`",
                             delimiter),
                 R"(for example "," or ";" or "\t")");
}

}  // namespace

void resolve_data(Draft& draft) {
  const auto& data = draft.spec.data;
  check_moments(draft);
  if (data.path.empty() && data.type != DataType::kOwn)
    draft.complain({"data.path"}, "data.path: expected a path, found empty text");
  switch (data.type) {
    case DataType::kCsv:
      resolve_delimiter(draft);
      [[fallthrough]];
    case DataType::kImages:
    case DataType::kText:
      return resolve_validation(draft);
    case DataType::kIdx:
    case DataType::kOwn:
      return;
  }
}

}  // namespace muster::job
