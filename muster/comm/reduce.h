#pragma once
// Elementwise reductions of two operands, the only arithmetic in comm. Every instruction set gives
// the same bits: no contraction, no reassociation; f16 and bf16 are widened to f32 and rounded to
// nearest even once per two-operand reduction; integers wrap. Min and max pass NaN on; which NaN
// comes of two is up to the compiler.
// Pure and thread-safe; count may be 0.

#include <cstddef>
#include <cstdint>

#include "muster/base/dtype.h"
#include "muster/comm/op.h"

namespace muster::comm {

// Where results go: to one place, or to two at once, so that nobody reads them again for the other.
struct Outputs {
  std::byte* one;
  std::byte* other = nullptr;
};

// out[i] = a[i] (+) b[i]. Either output may be `a` or `b`, but must not overlap these or the other
// one otherwise. kAvg adds, as kSum; divide() finishes it.
void reduce(DType dtype, Reduce reduce, Outputs out, const std::byte* a, const std::byte* b,
            std::int64_t count) noexcept;

// values[i] /= divisor: the end of kAvg. Integers round towards zero.
void divide(DType dtype, std::byte* values, std::int64_t count, std::int32_t divisor) noexcept;

// The instruction sets that this machine can run, narrowest first, for tests and `doctor`.
enum class InstructionSet : std::uint8_t { kBaseline, kAvx2, kAvx512 };
bool supported(InstructionSet set) noexcept;
void reduce_with(InstructionSet set, DType dtype, Reduce reduce, Outputs out, const std::byte* a,
                 const std::byte* b, std::int64_t count) noexcept;

}  // namespace muster::comm
