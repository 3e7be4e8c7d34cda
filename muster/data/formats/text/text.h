#pragma once
// One text file as bytes, for language models over bytes: the file is mapped, a sample is a window.

#include "muster/base/files.h"
#include "muster/data/source.h"

namespace muster::data {

enum class TextPart : std::uint8_t { kAll, kTraining, kValidation };

struct TextOptions {
  Path path;
  std::int64_t context_length = 128;  // T, bytes
  TextPart part = TextPart::kAll;
  double validation_fraction = 0.1;  // the tail of the file; at the same byte for every T
};

// Field: "tokens" U8 [T + 1]; bytes 0 … T-1 are the input, 1 … T the targets.
// Over n bytes there are ceil((n - 1) / T) windows, window i at byte i * T, so that every byte but
// the first is a target. Where T does not divide n - 1 the last window starts earlier, at n - 1 -
// T, and overlaps the one before it: fewer than T bytes are targets twice, none is left out. A part
// shorter than T + 1 bytes is kInvalid.
Result<SourcePtr> create_text_source(Files& files, const TextOptions& options);

}  // namespace muster::data
