#include "muster/data/formats/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "muster/base/round_up.h"
#include "muster/base/units.h"
#include "muster/data/contents.h"

namespace muster::data {
namespace {

class TextSource final : public Source {
 public:
  // `part` lies within `file` and holds more than `context` bytes.
  TextSource(std::shared_ptr<const MappedFile> file, std::span<const std::byte> part,
             std::int64_t context)
      : file_(std::move(file)),
        part_(part),
        context_(context),
        fields_{{"tokens", DType::kU8, {context + 1}}} {}

  std::int64_t size() const noexcept override { return ceil_div(targets(), context_); }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }

  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    const std::int64_t begin = std::min(index * context_, targets() - context_);
    const std::span<std::byte> to = into[0].bytes;
    std::memcpy(to.data(), part_.data() + begin, to.size());
    return ok();
  }

  std::uint64_t fingerprint() const noexcept override {
    Checksum sum;
    add_contents(sum, part_);
    return sum.value();
  }

 private:
  std::int64_t targets() const noexcept { return static_cast<std::int64_t>(part_.size()) - 1; }

  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> part_;
  std::int64_t context_;
  std::vector<FieldSpec> fields_;
};

Status check(const TextOptions& options) {
  if (options.context_length < 1) {
    return fail(ErrorCode::kInvalid, fmt::format("[data/text] a context of {} bytes; it must be at "
                                                 "least 1",
                                                 options.context_length));
  }
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    return fail(ErrorCode::kInvalid,
                fmt::format("[data/text] a validation fraction of {}; it must be in [0, 1)",
                            options.validation_fraction));
  }
  return ok();
}

std::span<const std::byte> choose_part(std::span<const std::byte> bytes,
                                       const TextOptions& options) {
  const auto validation = static_cast<std::size_t>(
      std::llround(options.validation_fraction * static_cast<double>(bytes.size())));
  switch (options.part) {
    case TextPart::kTraining:
      return bytes.first(bytes.size() - validation);
    case TextPart::kValidation:
      return bytes.last(validation);
    case TextPart::kAll:
      break;
  }
  return bytes;
}

std::string_view describe(TextPart part) {
  switch (part) {
    case TextPart::kTraining:
      return "training part";
    case TextPart::kValidation:
      return "validation part";
    case TextPart::kAll:
      break;
  }
  return "text";
}

}  // namespace

Result<SourcePtr> create_text_source(Files& files, const TextOptions& options) {
  MUSTER_TRY(check(options));
  MUSTER_ASSIGN(std::shared_ptr<const MappedFile> file, files.map(options.path));
  const std::span<const std::byte> part = choose_part(file->bytes(), options);
  if (static_cast<std::int64_t>(part.size()) <= options.context_length) {
    return fail(ErrorCode::kInvalid,
                fmt::format("[data/text] the {} of {} has {}, but data.context_length is {}, and a "
                            "sample has one byte more; shorten it, or change "
                            "data.validation_split",
                            describe(options.part), options.path.string(),
                            counted(static_cast<std::int64_t>(part.size()), "byte"),
                            options.context_length));
  }
  return std::make_shared<TextSource>(std::move(file), part, options.context_length);
}

}  // namespace muster::data
