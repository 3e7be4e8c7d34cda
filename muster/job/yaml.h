#pragma once
// The strict reader: YAML 1.2 without what surprises people. Refused, each with its place:
// duplicate keys, merge keys, anchors and aliases, tags, directives, several documents, tabs as
// indentation, text that is not UTF-8, control characters, more than 1 MiB, more than 16 levels.
// Scalars stay text: what they mean is decided by the field that takes them, so `no` is never false
// and `010` never 8. JSON is a subset. Pure, thread-safe.

#include <memory>
#include <string>
#include <vector>

#include "muster/job/diagnostic.h"

namespace muster::job {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kScalar, kList, kMap, kNull };

  Kind kind = Kind::kNull;
  Place place;
  std::string text;     // of a scalar
  bool quoted = false;  // of a scalar: written in quotes or as a block
  bool broken = false;  // already reported; says nothing
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries;  // of a map, in file order, keys unique
  bool lacks_keys = false;         // of a map: some could not be read, which has been reported
};

struct YamlEntry {
  YamlNode key;
  YamlNode value;
};

inline constexpr std::size_t kMaxJobBytes = 1 << 20;
inline constexpr int kMaxJobDepth = 16;

// The single document of `source`; kNull where it is empty. Adds what is wrong to `errors`.
YamlNode read_yaml(const std::shared_ptr<const Source>& source, std::vector<Diagnostic>& errors);

// The value of a flag, variable or --set: what stands from byte `offset` of the one-line source.
// An empty value is empty text.
YamlNode read_yaml_value(const std::shared_ptr<const Source>& source, std::size_t offset,
                         std::vector<Diagnostic>& errors);

}  // namespace muster::job
