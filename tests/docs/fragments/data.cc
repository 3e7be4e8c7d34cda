// What stands around the block of docs/data.md: page.py puts it in as block.inc.
#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/data/batch_stream.h"
#include "muster/data/formats/idx/idx.h"
#include "muster/data/transform.h"

namespace muster {

void read_all(std::uint64_t seed, data::Cursor cursor) {
#include "block.inc"
}

}  // namespace muster
