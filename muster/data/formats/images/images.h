#pragma once
// Folders of PNG and JPEG pictures, one for each class (image_folder.h), decoded as they are read.

#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/data/hold_out.h"

namespace muster::data {

struct ImageOptions {
  Path path;
  Path validation_path = {};       // a folder of the same classes; empty: the next
  double validation_fraction = 0;  // of the pictures of `path`, chosen by hold_out()
  std::int64_t size = 64;          // pixels a side: fit_image() of image.h
  std::int64_t channels = 3;       // 1: grey
  std::int64_t classes = 0;        // at most so many; 0: any number
};

struct ImageSets {
  SourcePair sources;
  std::vector<std::string> classes;  // by label
};

// Fields: "image" U8 [channels, size, size], "label" I64 []. Names are listed at once; a picture
// that cannot be read is told when it is its turn (kCorrupt, kUnsupported, with its path). Errors
// otherwise: those of list_images(); kInvalid for more classes than `classes` and for a part
// without pictures. `files` must outlive the sources.
Result<ImageSets> create_image_sources(Files& files, const ImageOptions& options);

}  // namespace muster::data
