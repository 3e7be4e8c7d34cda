#pragma once
// The samples that a job's data section means, of the types that muster reads itself.

#include <optional>

#include "muster/app/data/data_card.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/data/hold_out.h"
#include "muster/job/spec.h"

namespace muster::app {

struct OpenedData {
  data::SourcePair sources;
  std::optional<DataCard> card = {};  // of what muster reads itself
};

// Both sets. Not for data of a program's own (kOwn), which has sources of its own. `files` must
// outlive them. Errors are those of the formats (muster/data/formats).
Result<OpenedData> open_data(Files& files, const job::JobSpec& job);

}  // namespace muster::app
