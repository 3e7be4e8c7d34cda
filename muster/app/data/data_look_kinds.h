#pragma once
// Parts of look_at_data(), one for each kind of data.

#include "muster/app/data/data_look.h"

namespace muster::app {

// The share to hold out where data comes as one set: a tenth of a few says little.
constexpr double share_held_out(std::int64_t samples) { return samples < 2000 ? 0.2 : 0.1; }

// Whether a picture that muster reads lies in a folder or in one of its folders' folders.
bool holds_pictures(Files& files, const Path& path);
Result<DataFound> look_at_pictures(Files& files, const Path& path);

bool is_table_name(const Path& path);  // ends with .csv or .tsv, perhaps with .gz behind
// `target`: its column of classes; empty: it is guessed.
Result<DataFound> look_at_table(Files& files, const Path& path, const std::string& target);

}  // namespace muster::app
