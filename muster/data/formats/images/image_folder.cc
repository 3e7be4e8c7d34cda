#include "muster/data/formats/images/image_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "muster/base/lowered.h"

namespace muster::data {
namespace {

constexpr int kDeepest = 16;  // levels of folders; a link to a folder above has no end

std::string ending_of(const Path& name) { return lowered(name.extension().string()); }

bool is_other_picture(const Path& name) {
  constexpr std::array kOthers = {".bmp",  ".gif",  ".webp", ".tif", ".tiff", ".jp2",
                                  ".heic", ".avif", ".pgm",  ".ppm", ".svg"};
  return std::ranges::find(kOthers, ending_of(name)) != kOthers.end();
}

// What is neither a file nor can be listed is told, where it is listed: a class that is out of
// reach would be missed.
bool is_file(Files& files, const Path& path) { return files.size(path).has_value(); }

class Lister {
 public:
  Lister(Files& files, ImageFolder& folder) : files_(files), folder_(folder) {}

  // All below folder_.path / name.
  Status list(const std::string& name, std::int64_t label, int depth) {
    const Path place = folder_.path / name;
    if (depth > kDeepest)
      return fail(ErrorCode::kInvalid,
                  fmt::format("[data/images] {}: more than {} folders deep; does a link lead back?",
                              place.string(), kDeepest));
    MUSTER_ASSIGN(const std::vector<std::string> names, files_.list(place));
    for (const std::string& each : names) {
      if (each.starts_with('.')) continue;
      const std::string below = name + "/" + each;
      if (is_image_name(each)) {
        folder_.files.push_back({below, label});
      } else if (is_other_picture(each)) {
        return fail(ErrorCode::kInvalid,
                    fmt::format("[data/images] {}: PNG and JPEG are read; convert it, or take it "
                                "away",
                                (place / each).string()));
      } else if (!is_file(files_, place / each)) {
        MUSTER_TRY(list(below, label, depth + 1));
      }
    }
    return ok();
  }

 private:
  Files& files_;
  ImageFolder& folder_;
};

Result<std::vector<std::string>> subfolders(Files& files, const Path& path) {
  MUSTER_ASSIGN(const std::vector<std::string> names, files.list(path));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    if (is_image_name(name) || is_other_picture(name))
      return fail(
          ErrorCode::kInvalid,
          fmt::format("[data/images] {} lies in no class: the pictures of each class belong "
                      "into a folder of its own, as in {}",
                      (path / name).string(), (path / "daisy" / name).string()));
    if (!is_file(files, path / name)) found.push_back(name);
  }
  return found;
}

Result<std::int64_t> label_of(const Path& path, const std::string& name,
                              const std::vector<std::string>& classes) {
  const auto place = std::ranges::find(classes, name);
  if (place != classes.end()) return place - classes.begin();
  return fail(ErrorCode::kInvalid,
              fmt::format("[data/images] {} is none of the classes to train on, which are {}",
                          (path / name).string(), fmt::join(classes, ", ")));
}

}  // namespace

bool is_image_name(const Path& name) {
  constexpr std::array kEndings = {".png", ".jpg", ".jpeg"};
  return std::ranges::find(kEndings, ending_of(name)) != kEndings.end();
}

Result<ImageFolder> list_images(Files& files, const Path& path,
                                const std::vector<std::string>* classes) {
  MUSTER_ASSIGN(const std::vector<std::string> found, subfolders(files, path));
  ImageFolder folder{path, classes != nullptr ? *classes : found, {}};
  Lister lister(files, folder);
  for (const std::string& name : found) {
    const Result<std::int64_t> label = label_of(path, name, folder.classes);
    const std::size_t before = folder.files.size();
    MUSTER_TRY(lister.list(name, label ? *label : -1, 1));
    if (folder.files.size() > before) MUSTER_TRY(label);
    if (folder.files.size() == before && classes == nullptr)
      return fail(ErrorCode::kInvalid,
                  fmt::format("[data/images] {} holds no .png, .jpg or .jpeg: a class of nothing; "
                              "fill it, or take it away",
                              (path / name).string()));
  }
  if (!folder.files.empty()) return folder;
  return fail(ErrorCode::kInvalid,
              fmt::format("[data/images] {} holds no folders of .png, .jpg or .jpeg files, one for "
                          "each class",
                          path.string()));
}

}  // namespace muster::data
