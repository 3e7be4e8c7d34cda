#pragma once
// A folder of pictures whose subfolders are the classes, the layout of torchvision's ImageFolder.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"

namespace muster::data {

struct ImageFile {
  std::string name;  // below the folder: "daisy/2019/7.jpg"
  std::int64_t label = 0;
};

struct ImageFolder {
  Path path;
  std::vector<std::string> classes;  // names of its subfolders, sorted; a label is a place here
  std::vector<ImageFile> files;      // sorted by class, then by name
};

// Every .png, .jpg and .jpeg (of any case) at any depth below a subfolder; names that begin with a
// dot and other files are passed over. kInvalid for pictures beside the subfolders, for pictures of
// kinds that are not read (left out, they would be missed), and where there is none at all;
// kNotFound where there is no folder.
// With `classes` the subfolders are some of those, and their labels are places there.
Result<ImageFolder> list_images(Files& files, const Path& path,
                                const std::vector<std::string>* classes = nullptr);

// Whether a file's name ends as a picture's that is read.
bool is_image_name(const Path& name);

}  // namespace muster::data
