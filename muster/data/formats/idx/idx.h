#pragma once
// IDX, the format of the MNIST family (http://yann.lecun.com/exdb/mnist): a big-endian header (two
// zero bytes, element type, rank, extents), then the elements. Plain files are mapped; gzip files
// are inflated whole, at once, with their CRC checked.

#include "muster/base/files.h"
#include "muster/data/source.h"

namespace muster::data {

struct IdxFiles {
  Path images;               // [N, H, W], [N, C, H, W] or any [N, …] of U8, I32, F32 or F64
  Path labels;               // [N] of U8 or I32
  std::int64_t classes = 0;  // labels are below this; 0: whatever they are
  Path cache = {};           // folder for inflated copies (gzip.h); empty: none
};

// Fields: "image", of the images' own type, [1, H, W] for [N, H, W] and […] for any other [N, …];
// "label" I64 []. A file with a wrong magic number, too few or too many bytes, a broken checksum,
// counts that do not match, no samples, or a label that is none is refused with kCorrupt or
// kInvalid, a missing one with kNotFound. Reading a sample of F32 or F64 that holds a number that
// is none or too large for F32 is kInvalid.
Result<SourcePtr> create_idx_source(Files& files, const IdxFiles& idx);

}  // namespace muster::data
