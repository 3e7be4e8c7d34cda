#include "muster/comm/reduce.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "muster/comm/small_floats.h"

namespace muster::comm {
namespace {

// ---- element types: how they are stored and in what they are computed ----

template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T load(T value) noexcept { return value; }
  static T store(T value) noexcept { return value; }
};

// ---- reductions ----

// Integers wrap: computed unsigned, at least 32 bits wide so that nothing is promoted to int.
template <class T, class F>
T wrapping(T a, T b, F f) noexcept {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    return static_cast<T>(f(static_cast<Wide>(a), static_cast<Wide>(b)));
  } else {
    return f(a, b);
  }
}

struct Add {
  template <class T>
  static T apply(T a, T b) noexcept {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Multiply {
  template <class T>
  static T apply(T a, T b) noexcept {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct Least {  // b != b: a NaN in b is passed on; one in a stays because both tests fail
  template <class T>
  static T apply(T a, T b) noexcept {
    return ((b < a) | (b != b)) ? b : a;
  }
};
struct Greatest {
  template <class T>
  static T apply(T a, T b) noexcept {
    return ((a < b) | (b != b)) ? b : a;
  }
};

// ---- loops, compiled once for each instruction set ----

template <class Element, class Operation, bool kToBoth>
[[gnu::always_inline]] inline void loop(Outputs out, const std::byte* a, const std::byte* b,
                                        std::int64_t count) noexcept {
  using Stored = typename Element::Stored;
  auto* to = reinterpret_cast<Stored*>(out.one);
  [[maybe_unused]] auto* also_to = reinterpret_cast<Stored*>(out.other);
  const auto* left = reinterpret_cast<const Stored*>(a);
  const auto* right = reinterpret_cast<const Stored*>(b);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const Stored result =
        Element::store(Operation::apply(Element::load(left[i]), Element::load(right[i])));
    to[i] = result;
    if constexpr (kToBoth) also_to[i] = result;
  }
}

using Kernel = void (*)(Outputs, const std::byte*, const std::byte*, std::int64_t) noexcept;

struct Baseline {
  template <class E, class O, bool kToBoth>
  static void run(Outputs out, const std::byte* a, const std::byte* b,
                  std::int64_t count) noexcept {
    loop<E, O, kToBoth>(out, a, b, count);
  }
};

#if defined(__x86_64__)
struct Avx2 {
  template <class E, class O, bool kToBoth>
  [[gnu::target("avx2")]] static void run(Outputs out, const std::byte* a, const std::byte* b,
                                          std::int64_t count) noexcept {
    loop<E, O, kToBoth>(out, a, b, count);
  }
};
struct Avx512 {
  template <class E, class O, bool kToBoth>
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] static void run(
      Outputs out, const std::byte* a, const std::byte* b, std::int64_t count) noexcept {
    loop<E, O, kToBoth>(out, a, b, count);
  }
};
#else
using Avx2 = Baseline;
using Avx512 = Baseline;
#endif

// To one place, and to both.
struct Pair {
  Kernel to_one;
  Kernel to_both;
};

template <class Set, class Element, class Operation>
constexpr Pair pair_of() {
  return {Set::template run<Element, Operation, false>,
          Set::template run<Element, Operation, true>};
}

template <class Set, class Element>
constexpr std::array<Pair, 5> kernels_of() {
  return {pair_of<Set, Element, Add>(), pair_of<Set, Element, Add>(),
          pair_of<Set, Element, Least>(), pair_of<Set, Element, Greatest>(),
          pair_of<Set, Element, Multiply>()};
}

// By dtype, then by reduction, both in the order of their enumerations.
template <class Set>
constexpr std::array<std::array<Pair, 5>, 7> kernels() {
  return {kernels_of<Set, Half>(),
          kernels_of<Set, BFloat>(),
          kernels_of<Set, Plain<float>>(),
          kernels_of<Set, Plain<double>>(),
          kernels_of<Set, Plain<std::int32_t>>(),
          kernels_of<Set, Plain<std::int64_t>>(),
          kernels_of<Set, Plain<std::uint8_t>>()};
}

constexpr std::array kKernels = {kernels<Baseline>(), kernels<Avx2>(), kernels<Avx512>()};

template <class Element>
void divide_all(std::byte* values, std::int64_t count, std::int32_t divisor) noexcept {
  auto* elements = reinterpret_cast<typename Element::Stored*>(values);
  using Computed = typename Element::Computed;
  using Divisor = std::conditional_t<std::is_integral_v<Computed>, std::int64_t, Computed>;
  const auto by = static_cast<Divisor>(divisor);
  for (std::int64_t i = 0; i < count; ++i)
    elements[i] = Element::store(static_cast<Computed>(Element::load(elements[i]) / by));
}

InstructionSet widest_supported() noexcept {
  if (supported(InstructionSet::kAvx512)) return InstructionSet::kAvx512;
  if (supported(InstructionSet::kAvx2)) return InstructionSet::kAvx2;
  return InstructionSet::kBaseline;
}

}  // namespace

bool supported(InstructionSet set) noexcept {
#if defined(__x86_64__)
  switch (set) {
    case InstructionSet::kBaseline:
      return true;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2");
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
  return false;
#else
  return set == InstructionSet::kBaseline;
#endif
}

void reduce_with(InstructionSet set, DType dtype, Reduce reduce, Outputs out, const std::byte* a,
                 const std::byte* b, std::int64_t count) noexcept {
  const auto& table = kKernels[static_cast<std::size_t>(set)];
  const Pair& pair = table[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(reduce)];
  (out.other == nullptr ? pair.to_one : pair.to_both)(out, a, b, count);
}

void reduce(DType dtype, Reduce reduce, Outputs out, const std::byte* a, const std::byte* b,
            std::int64_t count) noexcept {
  static const InstructionSet widest = widest_supported();
  reduce_with(widest, dtype, reduce, out, a, b, count);
}

void divide(DType dtype, std::byte* values, std::int64_t count, std::int32_t divisor) noexcept {
  switch (dtype) {
    case DType::kF16:
      return divide_all<Half>(values, count, divisor);
    case DType::kBF16:
      return divide_all<BFloat>(values, count, divisor);
    case DType::kF32:
      return divide_all<Plain<float>>(values, count, divisor);
    case DType::kF64:
      return divide_all<Plain<double>>(values, count, divisor);
    case DType::kI32:
      return divide_all<Plain<std::int32_t>>(values, count, divisor);
    case DType::kI64:
      return divide_all<Plain<std::int64_t>>(values, count, divisor);
    case DType::kU8:
      return divide_all<Plain<std::uint8_t>>(values, count, divisor);
  }
}

}  // namespace muster::comm
