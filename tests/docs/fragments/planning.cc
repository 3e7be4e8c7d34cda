// What stands around the block of docs/planning.md: page.py puts it in as block.inc.
#include "muster/base/result.h"
#include "muster/plan/estimate.h"
#include "muster/plan/model_profile.h"

namespace muster {

Result<plan::Estimate> price(const std::string& text, const plan::Way& way,
                             const plan::Hardware& hardware) {
#include "block.inc"
  return found;
}

}  // namespace muster
