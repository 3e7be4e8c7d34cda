#include <algorithm>
#include <initializer_list>
#include <utility>

#include "muster/app/data/data_look_kinds.h"
#include "muster/base/lowered.h"
#include "muster/data/formats/images/image.h"
#include "muster/data/formats/images/image_folder.h"
#include "muster/data/formats/images/images.h"

namespace muster::app {
namespace {

constexpr std::int64_t kSizesLookedAt = 64;    // pictures, decoded whole
constexpr std::int64_t kPixelsLookedAt = 512;  // pictures, brought to size

struct Folders {
  Path training;
  Path validation;  // empty: none of its own
};

// The names by which people call the two parts of a set. Where there is the one for training alone,
// a part of it is held out.
Result<Folders> folders_in(Files& files, const Path& path) {
  MUSTER_ASSIGN(const std::vector<std::string> names, files.list(path));
  const auto first = [&](std::initializer_list<std::string_view> known) {
    for (const std::string_view one : known)
      for (const std::string& name : names)
        if (lowered(name) == one && files.list(path / name)) return path / name;
    return Path();
  };
  const Path training = first({"train", "training"});
  if (training.empty()) return Folders{path, {}};
  return Folders{training, first({"val", "valid", "validation", "dev", "eval", "test", "testing"})};
}

bool is_gray(const data::Image& image) {
  for (std::size_t at = 0; at < image.pixels.size(); at += 3)
    if (image.pixels[at] != image.pixels[at + 1] || image.pixels[at] != image.pixels[at + 2])
      return false;
  return true;
}

// What most pictures have, no more than a first try on a CPU can do with.
std::int64_t size_for(std::vector<std::int64_t> sides) {
  std::ranges::sort(sides);
  const std::int64_t middle = sides[sides.size() / 2];
  for (const std::int64_t size : {64, 48, 32, 28, 24})
    if (size <= middle) return size;
  return std::max<std::int64_t>(middle, 8);
}

Status look_at_some(Files& files, const data::ImageFolder& folder, ImageFolders& found) {
  std::vector<std::int64_t> sides;
  found.gray = true;
  const std::size_t apart = 1 + folder.files.size() / kSizesLookedAt;
  for (std::size_t i = 0; i < folder.files.size(); i += apart) {
    const Path path = folder.path / folder.files[i].name;
    MUSTER_ASSIGN(const auto mapped, files.map(path));
    const auto told = [&path](const Error& error) {
      return fail(error.code, "[data/look] " + path.string() + " " + error.message);
    };
    const auto size = data::image_size(mapped->bytes());
    if (!size) return told(size.error());
    const auto image = data::decode_image(mapped->bytes(), 3, 1);
    if (!image) return told(image.error());
    sides.push_back(std::min(size->width, size->height));
    found.gray = found.gray && is_gray(*image);
  }
  found.size = size_for(std::move(sides));
  return ok();
}

}  // namespace

bool holds_pictures(Files& files, const Path& path) {
  constexpr int kLevels = 3;
  const auto holds = [&](const auto& self, const Path& folder, int levels) -> bool {
    const auto names = files.list(folder);
    if (!names) return false;
    if (std::ranges::any_of(*names,
                            [](const std::string& name) { return data::is_image_name(name); }))
      return true;
    return levels > 1 && std::ranges::any_of(*names, [&](const std::string& name) {
             return self(self, folder / name, levels - 1);
           });
  };
  return holds(holds, path, kLevels);
}

Result<DataFound> look_at_pictures(Files& files, const Path& path) {
  MUSTER_ASSIGN(const Folders folders, folders_in(files, path));
  ImageFolders found;
  found.path = folders.training;
  found.validation_path = folders.validation;
  MUSTER_ASSIGN(const data::ImageFolder folder, data::list_images(files, folders.training));
  MUSTER_TRY(look_at_some(files, folder, found));
  found.validation_split = share_held_out(std::ssize(folder.files));
  MUSTER_ASSIGN(const data::ImageSets sets,
                data::create_image_sources(files, {.path = found.path,
                                                   .validation_path = found.validation_path,
                                                   .validation_fraction = found.validation_split,
                                                   .size = found.size,
                                                   .channels = found.gray ? 1 : 3}));
  MUSTER_ASSIGN(PixelMoments moments, pixel_moments(*sets.sources.training, kPixelsLookedAt));
  found.pictures = {.training = sets.sources.training->size(),
                    .validation = sets.sources.validation->size(),
                    .shape = sets.sources.training->fields().front().shape,
                    .classes = std::ssize(sets.classes),
                    .moments = std::move(moments)};
  return DataFound(std::move(found));
}

}  // namespace muster::app
