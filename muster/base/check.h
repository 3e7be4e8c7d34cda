#pragma once
// Preconditions. A caller that breaks a documented rule gets a LogicFault with the place and the
// condition; tests assert it. MUSTER_DCHECK is for hot paths: compiled out unless MUSTER_CHECKED.

#include <stdexcept>
#include <string>

namespace muster {

class LogicFault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_logic_fault(const char* file, int line, const char* condition,
                                    const std::string& detail);

}  // namespace muster

#define MUSTER_CHECK(condition, detail)                                      \
  do {                                                                       \
    if (!(condition)) [[unlikely]]                                           \
      ::muster::throw_logic_fault(__FILE__, __LINE__, #condition, (detail)); \
  } while (false)

#if MUSTER_CHECKED
#define MUSTER_DCHECK(condition, detail) MUSTER_CHECK(condition, detail)
#else
#define MUSTER_DCHECK(condition, detail) \
  do {                                   \
  } while (false)
#endif
