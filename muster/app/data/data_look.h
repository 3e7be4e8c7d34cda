#pragma once
// What lies at a path, as far as a first job for it needs to know.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "muster/app/data/pixel_moments.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/base/tensor_view.h"

namespace muster::app {

struct LabelledArrays {  // of IDX files: a training and a validation set
  std::int64_t training = 0, validation = 0;
  Shape shape;  // of one: [C, H, W] of images
  std::int64_t classes = 0;
  PixelMoments moments;  // empty where elements are no bytes
};

struct ImageFolders {  // PNG and JPEG files in a folder for each class
  LabelledArrays pictures;
  Path path;                    // the folder that holds those of the training
  Path validation_path;         // empty: a part of them is held out
  double validation_split = 0;  // then
  std::int64_t size = 0;        // that suits them, and a first try
  bool gray = false;            // none has colours
};

struct IgnoredColumn {
  std::string name;
  std::string why;  // "only counts the rows"
};

struct LabelledTable {  // a CSV file
  std::int64_t training = 0, validation = 0;
  double validation_split = 0;
  std::string target = {};  // a column that holds classes, by its name or its place
  std::vector<std::string> classes = {};
  std::int64_t columns = 0;                // to learn from
  std::vector<std::string> of_words = {};  // those of them that are not numbers
  std::vector<IgnoredColumn> ignore = {};
  char delimiter = ',';
  bool header = true;
  bool decimal_comma = false;
};

struct PlainText {
  std::uint64_t bytes = 0;
};

using DataFound = std::variant<LabelledArrays, ImageFolders, LabelledTable, PlainText>;

// Reads labels and some samples, tables whole, which takes seconds for large ones. kNotFound where
// there is nothing; kUnsupported, saying what is there and what muster reads, for anything else.
// `target`: the column of a table that is to be learnt; empty: it is guessed. kInvalid where there
// is none of that name.
Result<DataFound> look_at_data(Files& files, const Path& path, const std::string& target = {});

}  // namespace muster::app
