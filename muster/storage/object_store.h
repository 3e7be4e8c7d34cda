#pragma once
// Objects by name: local disk, memory, and later S3 and WebHDFS, behind one contract. A put is
// whole or absent. Thread-safe. Names are relative paths of plain parts: "a/b.bin"; kInvalid for
// others (empty, absolute, with "." or ".." or an empty part, a NUL).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::storage {

struct ObjectInfo {
  std::string name;
  std::uint64_t size = 0;

  friend bool operator==(const ObjectInfo&, const ObjectInfo&) = default;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Stores the bytes, durably where the store knows that word; replaces an object of this name.
  // Readers see the old object or the new one.
  virtual Status put(std::string_view name, std::span<const std::byte> bytes) = 0;

  // Fills `into` from `offset` on; the number of bytes, fewer only at the object's end. kNotFound.
  virtual Result<std::size_t> read(std::string_view name, std::uint64_t offset,
                                   std::span<std::byte> into) = 0;

  // Objects whose name starts with `prefix`, by name.
  virtual Result<std::vector<ObjectInfo>> list(std::string_view prefix) = 0;

  // Fine when there is no such object.
  virtual Status remove(std::string_view name) = 0;
};

// kInvalid with the reason when `name` is none.
Status check_object_name(std::string_view name);

}  // namespace muster::storage
