#pragma once
// What lies at a path, as far as a first job for it needs to know.

#include <cstdint>
#include <variant>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/base/tensor_view.h"

namespace muster::app {

struct LabelledArrays {  // of IDX files: a training and a validation set
  std::int64_t training = 0, validation = 0;
  Shape shape;  // of one: [C, H, W] of images
  std::int64_t classes = 0;
  // Of every channel, pixels being in [0, 1]; empty where elements are no bytes.
  std::vector<double> mean, std;
};

struct PlainText {
  std::uint64_t bytes = 0;
};

using DataFound = std::variant<LabelledArrays, PlainText>;

// Reads labels and some samples, which takes up to a second. kNotFound where there is nothing;
// kUnsupported, saying what is there and what muster reads, for anything else.
Result<DataFound> look_at_data(Files& files, const Path& path);

}  // namespace muster::app
