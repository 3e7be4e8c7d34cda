#include "muster/data/formats/images/images.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/checksum.h"
#include "muster/data/formats/images/image.h"
#include "muster/data/formats/images/image_folder.h"

namespace muster::data {
namespace {

class ImageSource final : public Source {
 public:
  ImageSource(Files& files, ImageFolder folder, const ImageOptions& options)
      : files_(files),
        folder_(std::move(folder)),
        channels_(options.channels),
        size_(options.size),
        fields_{{"image", DType::kU8, {channels_, size_, size_}}, {"label", DType::kI64, {}}} {}

  std::int64_t size() const noexcept override { return std::ssize(folder_.files); }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }

  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    const ImageFile& file = folder_.files[static_cast<std::size_t>(index)];
    const Path path = folder_.path / file.name;
    MUSTER_ASSIGN(const auto mapped, files_.map(path));
    // With twice the pixels at hand what is left out in decoding does not show.
    const Result<Image> image = decode_image(mapped->bytes(), channels_, 2 * size_);
    if (!image)
      return fail(image.error().code,
                  fmt::format("[data/images] {} {}", path.string(), image.error().message));
    fit_image(*image, size_, into[0].as<std::uint8_t>());
    into[1].as<std::int64_t>()[0] = file.label;
    return ok();
  }

 private:
  Files& files_;
  ImageFolder folder_;
  std::int64_t channels_;
  std::int64_t size_;
  std::vector<FieldSpec> fields_;
};

Status check_classes(const ImageOptions& options, const std::vector<std::string>& classes) {
  const std::int64_t count = std::ssize(classes);
  if (options.classes == 0 || count <= options.classes) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[data/images] {} holds {} folders, each of which is a class, but "
                          "model.classes is {}",
                          options.path.string(), count, options.classes));
}

// Of names and labels: of contents it would take as long as an epoch.
void add_to(Checksum& sum, const ImageFolder& folder) {
  for (const ImageFile& file : folder.files) {
    sum.add(std::as_bytes(std::span(file.name)));
    sum.add(std::as_bytes(std::span(&file.label, 1)));
  }
}

}  // namespace

Result<ImageSets> create_image_sources(Files& files, const ImageOptions& options) {
  MUSTER_ASSIGN(ImageFolder folder, list_images(files, options.path));
  MUSTER_TRY(check_classes(options, folder.classes));
  ImageSets sets{{}, folder.classes};
  Checksum sum;
  add_to(sum, folder);
  const auto training = std::make_shared<ImageSource>(files, std::move(folder), options);
  if (options.validation_path.empty()) {
    MUSTER_ASSIGN(Parts parts, hold_out(training->size(), options.validation_fraction));
    sets.sources = {subset(training, std::move(parts.training)),
                    subset(training, std::move(parts.validation))};
  } else {
    MUSTER_ASSIGN(ImageFolder other, list_images(files, options.validation_path, &sets.classes));
    add_to(sum, other);
    sets.sources = {training, std::make_shared<ImageSource>(files, std::move(other), options)};
  }
  sets.sources.fingerprint = sum.value();
  return sets;
}

}  // namespace muster::data
