#include "muster/app/join/instruction_set.h"

#include <fmt/format.h>

namespace muster::app {

std::map<std::string, std::string> instruction_set_variables(job::Isa isa) {
  switch (isa) {
    case job::Isa::kAvx2:
      return {{"ATEN_CPU_CAPABILITY", "avx2"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}};
    case job::Isa::kAvx512:
      return {{"ATEN_CPU_CAPABILITY", "avx512"}, {"ONEDNN_MAX_CPU_ISA", "AVX512_CORE"}};
    case job::Isa::kAuto:
      break;
  }
  return {};
}

Status check_instruction_set(job::Isa isa) {
  __builtin_cpu_init();
  const bool there = isa == job::Isa::kAvx512 ? __builtin_cpu_supports("avx512f") != 0
                     : isa == job::Isa::kAvx2 ? __builtin_cpu_supports("avx2") != 0
                                              : true;
  if (there) return ok();
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("[train] training.isa: {}, which the processor of this machine lacks (see "
                  "`muster doctor`); use auto",
                  isa == job::Isa::kAvx512 ? "avx512" : "avx2"));
}

}  // namespace muster::app
